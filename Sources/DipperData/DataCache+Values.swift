import Foundation

extension DataCache {
    /// Fetches a typed value at once: from memory, or decoded from bytes in memory, on disk or on the network.
    ///
    /// The bytes are fetched once and decoded once for each type and decoder, however many calls wait. The value stays
    /// in memory as long as its bytes would be fresh, within ``Configuration/valueMemoryLimit``. Stored bytes that
    /// cannot be decoded are fetched again, and stay until an answer replaces them. See <doc:HTTPRules> for how often.
    ///
    /// A call for bytes that cannot be decoded ends with ``DipperError/undecodable``, whose ``DipperError/detail`` has
    /// the path of the failing key.
    ///
    /// ```swift
    /// struct Feed: Codable { var items: [Item] }
    /// let feed = try await cache.getValue(Feed.self, from: url).value
    /// ```
    @discardableResult
    public func getValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder()
    ) -> ValueTask<Value> { getValue(type, source.dataRequest, decoder, .fast) }

    /// Fetches a typed value at once, and calls a closure with it, but not if the call fails; see
    /// ``getValue(_:from:decoder:)``.
    @discardableResult
    public func getValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder(),
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Value) -> Void
    ) -> ValueTask<Value> { getValue(type, source.dataRequest, decoder, .fast).then(body) }

    /// Prefetches and decodes a typed value, while no urgent fetch needs the link.
    @discardableResult
    public func slowGetValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder()
    ) -> ValueTask<Value> { getValue(type, source.dataRequest, decoder, .slow) }

    /// Prefetches and decodes a typed value, and calls a closure with it; see ``slowGetValue(_:from:decoder:)``.
    @discardableResult
    public func slowGetValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder(),
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Value) -> Void
    ) -> ValueTask<Value> { getValue(type, source.dataRequest, decoder, .slow).then(body) }

    /// Fetches the bytes of a typed value at once from the network, whatever the cache has, and decodes them.
    @discardableResult
    public func getRemoteValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder()
    ) -> ValueTask<Value> { getValue(type, source.dataRequest.with(\.cachePolicy, .ignoreCache), decoder, .fast) }

    /// Fetches a typed value from the network, and calls a closure with it; see ``getRemoteValue(_:from:decoder:)``.
    @discardableResult
    public func getRemoteValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, from source: some DataRequestConvertible, decoder: Format = JSONValueDecoder(),
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Value) -> Void
    ) -> ValueTask<Value> { getRemoteValue(type, from: source, decoder: decoder).then(body) }

    private func getValue<Value: Decodable & Sendable>(
        _ type: Value.Type, _ request: DataRequest, _ decoder: some ValueDecoder, _ queue: FetchQueue
    ) -> ValueTask<Value> {
        let request = complete(request)
        let key = request.cacheKey
        // A smaller source takes the place of the URL while the network is constrained, unless the tiers have it.
        let effective = effective(request, key)
        let (present, presentKey) = effective ?? (request, key)
        let origin = Origin(
            present, presentKey, policy(of: request), valueSource, askedKey: key, isDecided: effective != nil)
        let task = ValueTask<Value>(request, key: key, queue: queue, callbackQueue: callbackQueue(of: request))
        if let defect = defect(of: request) {
            noteRefusal(key, queue, defect)
            task.end(.failure(defect), nil)
            return task
        }
        let step = ValueStep(type, decoder)
        let values = typedValues
        if let object = values.hit(origin, step) {
            noteMemoryHit(key, queue, object.basis.source)
            task.end(.success(object), nil)
        } else {
            ObjectCall.start(task, Making(values, origin, step))
        }
        return task
    }

    /// Returns a typed value, even one that is out of date, if the cache has it or the bytes to decode it from. A thread
    /// of the cache reads the disk and decodes; the cache does not use the network.
    @_disfavoredOverload
    public func value<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, for source: some DataRequestConvertible, decoder: Format = JSONValueDecoder()
    ) async -> Value? {
        let request = source.dataRequest
        return await read { $0.readValue(type, for: request, decoder: decoder) }
    }

    /// Returns a typed value like ``value(_:for:decoder:)-(_,DataRequestConvertible,_)``. Blocks the calling thread while it
    /// reads the disk and decodes.
    @_disfavoredOverload
    public func readValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, for source: some DataRequestConvertible, decoder: Format = JSONValueDecoder()
    ) -> Value? {
        readValue(type, forCompleted: complete(source.dataRequest), decoder)
    }

    /// Returns a typed value of a key, such as one that was stored by ``addValue(_:for:encoder:)-(_,CacheKey,_)``; see
    /// ``value(_:for:decoder:)-(_,DataRequestConvertible,_)``.
    public func value<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, for key: CacheKey, decoder: Format = JSONValueDecoder()
    ) async -> Value? {
        await read { $0.readValue(type, for: key, decoder: decoder) }
    }

    /// Returns a typed value of a key. Blocks the calling thread while it reads the disk and decodes.
    public func readValue<Value: Decodable & Sendable, Format: ValueDecoder>(
        _ type: Value.Type, for key: CacheKey, decoder: Format = JSONValueDecoder()
    ) -> Value? {
        readValue(type, forCompleted: DataRequest(string: "").with(\.key, key), decoder)
    }

    private func readValue<Value: Decodable & Sendable>(
        _ type: Value.Type, forCompleted request: DataRequest, _ decoder: some ValueDecoder
    ) -> Value? {
        let origin = Origin(request, request.cacheKey, policy(of: request), valueSource)
        return typedValues.find(origin, ValueStep(type, decoder)).map { $0.value(as: Value.self) }
    }

    /// Encodes a typed value of the caller's own, on the caller's thread, and stores its bytes for a URL, or under a
    /// request's key, as ``addData(_:for:)-(_,DataRequestConvertible)`` does.
    ///
    /// ```swift
    /// struct Settings: Codable { var isDark = false }
    /// try cache.addValue(Settings(), for: "settings")
    /// let settings = await cache.value(Settings.self, for: "settings")
    /// ```
    /// - Throws: ``DipperError/unencodable``, with the encoder's error as ``DipperError/underlying``;
    ///   ``DipperError/emptyKey``; ``DipperError/shutDown``.
    @_disfavoredOverload
    public func addValue(
        _ value: some Encodable, for source: some DataRequestConvertible, encoder: some ValueEncoder = JSONEncoder()
    ) throws(DipperError) {
        try addData(Self.encoded(value, encoder), for: source)
    }
    /// Encodes a typed value of the caller's own, and stores its bytes under a key; see
    /// ``addValue(_:for:encoder:)-(_,DataRequestConvertible,_)``.
    public func addValue(
        _ value: some Encodable, for key: CacheKey, encoder: some ValueEncoder = JSONEncoder()
    ) throws(DipperError) {
        try addData(Self.encoded(value, encoder), for: key)
    }

    private static func encoded(_ value: some Encodable, _ encoder: some ValueEncoder) throws(DipperError) -> Data {
        do { return try encoder.encode(value) } catch { throw DipperError(error, as: .unencodable) }
    }

    /// The memory that values take, in bytes, as their decoders estimate it.
    public var valueMemorySize: Int { values.load()?.memory.totalCost ?? 0 }

    private var typedValues: ObjectCache {
        if let present = values.load() { return present }
        let memory = makeObjectMemoryTier(limit: configuration.valueMemoryLimit, count: nil)
        let made = values.storeIfNil(
            ObjectCache(
                engine, memory: memory,
                workers: Workers(name: JoinableThread.name(configuration.name, "values"), threads: 2)))
        _ = store.onReplaced.storeIfNil(Reference { [weak made] key in made?.forget(key) })
        return made
    }
}
