import DipperData

extension AnimatedImage {
    /// Calls a closure with each frame when it is due, and with the number of the frame, from 0. See ``AnimatedImage``.
    @discardableResult
    public func onFrame(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image, _ index: Int) -> Void
    ) -> AnimatedImage {
        add { $0.frame.append(onItsActor(body)) }
    }

    /// Calls a closure when the first frames are decoded, just before the first one is shown; once for each start.
    @discardableResult
    public func onPrepared(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        add { $0.prepared.append(onItsActor(body)) }
    }

    /// Calls a closure each time all frames have been shown, with the number of times so far.
    @discardableResult
    public func onLoop(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ count: Int) -> Void
    ) -> AnimatedImage {
        add { $0.looped.append(onItsActor(body)) }
    }

    /// Calls a closure when the last frame has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFinish(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        add { $0.finished.append(onItsActor(body)) }
    }

    /// Calls a closure if a frame cannot be processed or is too large, or if not even the first can be decoded, after the
    /// frame before it has been shown for its duration. No hook is called afterwards. See ``onFinish(_:)``.
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (DipperError) -> Void
    ) -> AnimatedImage {
        add { $0.failed.append(onItsActor(body)) }
    }

    /// A stream of the frames as they are due. A reader that is late receives only the newest. The stream begins with
    /// ``currentFrame`` and ends with the player.
    ///
    /// ```swift
    /// let frames = player.frames
    /// player.start()
    /// for await frame in frames { view.show(frame) }
    /// ```
    public var frames: AsyncStream<Image> {
        let (stream, continuation) = AsyncStream.makeStream(of: Image.self, bufferingPolicy: .bufferingNewest(1))
        let number = player.withLock { player -> Int? in
            // The stream has no reader yet, so nothing wakes up here, and no frame can come in between.
            continuation.yield(player.current.image)
            let hasEnded =
                switch player.schedule.phase {
                case .finished, .failed: !player.mailbox.hasEnd
                case .idle, .playing: false
                }
            return hasEnded ? nil : player.hooks.add(continuation)
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            let ended = self?.player.withLock { $0.hooks.streams.removeValue(forKey: number) }
            _ = consume ended
        }
        return stream
    }

    private func add(_ change: (inout AnimationHooks) -> Void) -> AnimatedImage {
        player.withLock { change(&$0.hooks) }
        return self
    }
}

struct AnimationHooks: Sendable {
    var frame: [@Sendable (Image, Int) -> Void] = []
    var prepared: [@Sendable () -> Void] = []
    var looped: [@Sendable (Int) -> Void] = []
    var finished: [@Sendable () -> Void] = []
    var failed: [@Sendable (DipperError) -> Void] = []
    var streams: [Int: AsyncStream<Image>.Continuation] = [:]
    private var nextStream = 0

    /// Returns the number of the stream.
    mutating func add(_ stream: AsyncStream<Image>.Continuation) -> Int {
        nextStream += 1
        streams[nextStream] = stream
        return nextStream
    }

    /// The caller must end the streams when it holds no lock.
    mutating func takeStreams() -> [AsyncStream<Image>.Continuation] {
        defer { streams = [:] }
        return Array(streams.values)
    }

    func tell(_ news: AnimationMailbox.News) {
        switch news {
        case .prepared: for body in prepared { body() }
        case .frame(let image, let index):
            for body in frame { body(image, index) }
            for stream in streams.values { stream.yield(image) }
        case .looped(let count): for body in looped { body(count) }
        case .finished: for body in finished { body() }
        case .failed(let error): for body in failed { body(error) }
        }
    }
}

/// The news of a player that has not been delivered yet, in order. Only the newest frame and the newest count of loops
/// are kept, for a callback queue that is blocked for long.
struct AnimationMailbox: Sendable {
    enum News: Sendable {
        case prepared
        case frame(Image, index: Int)
        case looped(Int)
        case finished
        case failed(DipperError)

        var isEnd: Bool {
            switch self {
            case .finished, .failed: true
            case .prepared, .frame, .looped: false
            }
        }

        fileprivate func replaces(_ older: News) -> Bool {
            switch (self, older) {
            case (.frame, .frame), (.looped, .looped): true
            default: false
            }
        }
    }

    private var news: [News] = []
    /// Whether a call is waiting or running on the callback queue.
    private var isOnItsWay = false
    /// Whether the mailbox hands out nothing.
    var isHeld = false

    var count: Int { news.count }
    var hasEnd: Bool { news.contains(where: \.isEnd) }

    /// Takes the place of older news of the same kind if only the newest is kept. Returns the news that was replaced,
    /// which the caller must free when it holds no lock.
    mutating func post(_ item: News) -> News? {
        let replaced = news.firstIndex { item.replaces($0) }.map { news.remove(at: $0) }
        news.append(item)
        return replaced
    }

    /// Returns the news that was not delivered.
    mutating func clear() -> [News] {
        defer { news = [] }
        return news
    }

    /// Returns `true` if the caller must make a call on the callback queue: there is news to deliver and no other call.
    mutating func beginCall() -> Bool {
        guard !isOnItsWay, !isHeld, !news.isEmpty else { return false }
        isOnItsWay = true
        return true
    }

    mutating func take() -> News? { isHeld || news.isEmpty ? nil : news.removeFirst() }

    /// Returns `true` if the caller must make another call on the callback queue, because there is more news.
    mutating func endCall() -> Bool {
        isOnItsWay = false
        return beginCall()
    }
}
