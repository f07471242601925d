import Foundation

package enum Material: Sendable {
    /// The bytes of the request.
    case bytes(Data)
    /// The object of the step before.
    case product(Product)
    /// The stored form of the object itself.
    case form(Data)
}

/// A step that makes an object: from bytes, or from the object of the step before. Steps with one suffix make the same
/// object of the same bytes.
///
/// The methods are called on a thread that may be kept for long.
package protocol ObjectStep: AnyObject, Sendable {
    /// The end of the object's key, after the key of the bytes.
    var suffix: String { get }
    /// The step before; `nil` for a step that starts from the bytes.
    var before: (any ObjectStep)? { get }
    /// Whether the step can also start from the bytes, and do the work of those before it in one go.
    var isWholePath: Bool { get }
    /// The suffix of the object that takes this one's place if the program has added it.
    var addedSuffix: String { get }

    /// Makes the object.
    /// - Throws: ``DipperError/undecodable`` or ``DipperError/unsupportedFormat`` if the bytes are at fault.
    func make(of material: Material, _ task: MakingTask) throws(DipperError) -> Product
    /// Returns an estimate of the memory that the making takes, in bytes.
    func cost(of material: Material) -> Int
    /// The place of the program's own in which the object is made; `nil` for the threads of the cache.
    var place: CallbackQueue? { get }
    /// The threads that wait for another program, which makes the object of the bytes, so that a failure says nothing
    /// about the bytes; `nil` for a step that needs no program.
    var programs: Workers? { get }

    /// Returns the making of an object while its bytes arrive; `nil` if the step makes none before the last byte.
    func early() -> (any EarlyMaking)?
    func previews() -> (any PreviewScan)?
    /// Makes a coarse or partial object from the first bytes; `nil` if they are too few.
    func preview(of data: Data, _ task: MakingTask) -> Product?

    /// Whether the object has a stored form of its own.
    var isStored: Bool { get }
    /// Whether the stored form is made of all the bytes, and not only of their ``excerpt(of:)``.
    var needsBytes: Bool { get }
    /// Returns the part of the bytes that the stored form is made of.
    func excerpt(of data: Data) -> Data?
    /// Returns the stored form of the object.
    /// - Parameters:
    ///   - excerpt: the part of the bytes; `nil` if the object was made of none.
    ///   - isCancelled: returns whether nobody needs the stored form any more. A step that takes long asks now and then.
    func form(
        of product: Product, madeOf excerpt: Data?, isCancelled: @escaping @Sendable () -> Bool
    ) throws(DipperError) -> Data
}

extension ObjectStep {
    package var before: (any ObjectStep)? { nil }
    package var isWholePath: Bool { before == nil }
    package var addedSuffix: String { suffix }
    /// The kind of object: bytes of which one could not be made are no good for the others.
    package var kind: String { before?.kind ?? suffix }
    package func cost(of material: Material) -> Int {
        if case .bytes(let data) = material { data.count } else { 0 }
    }
    /// The effort is that of the first step, which goes through the whole picture even if it makes a small one.
    func load(of material: Material) -> (memory: Int, effort: Int) {
        let memory = cost(of: material)
        let size = if case .bytes(let data) = material { data.count } else { 0 }
        return (memory, before?.load(of: material).effort ?? max(memory, size))
    }
    package var place: CallbackQueue? { nil }
    package var programs: Workers? { nil }
    package func early() -> (any EarlyMaking)? { nil }
    package func previews() -> (any PreviewScan)? { nil }
    package func preview(of data: Data, _ task: MakingTask) -> Product? { nil }
    package var isStored: Bool { false }
    package var needsBytes: Bool { false }
    package func excerpt(of data: Data) -> Data? { nil }
    package func form(
        of product: Product, madeOf excerpt: Data?, isCancelled: @escaping @Sendable () -> Bool
    ) throws(DipperError) -> Data {
        throw .unsupportedFormat
    }

    func key(_ bytes: CacheKey) -> CacheKey { suffix.isEmpty ? bytes : CacheKey(verbatim: bytes.string + suffix) }
    func addedKey(_ bytes: CacheKey) -> CacheKey {
        addedSuffix.isEmpty ? bytes : CacheKey(verbatim: bytes.string + addedSuffix)
    }
}

/// The making of one object: whether it is still wanted, and the events that it tells.
package struct MakingTask: Sendable {
    package let isCancelled: @Sendable () -> Bool
    /// The making that has begun while the bytes arrived.
    package var early: (any EarlyMaking)?
    private let key: CacheKey
    private let call: CacheEvent.ID?
    private let events: EventHub?

    /// - Parameter call: the call that has brought the bytes.
    init(
        _ key: CacheKey, call: CacheEvent.ID? = nil, _ events: EventHub? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) {
        self.key = key
        self.call = call
        self.events = events
        self.isCancelled = isCancelled
    }

    package func decode<Product>(_ body: () throws(DipperError) -> Product) throws(DipperError) -> Product {
        guard let events else { return try body() }
        return try events.decode(key, of: call, body)
    }

    /// The closure that tells the begin of a step by its name, and returns one that tells the end.
    package var tellStep: @Sendable (_ name: String) -> (@Sendable (DipperError?) -> Void)? {
        // Does not keep the bytes: an object may keep the closure.
        { [events, key, call] name in events?.beginStep(key, name, of: call) }
    }
}

/// The making of an object while its bytes arrive. Its methods are called on one thread after the other.
package protocol EarlyMaking: AnyObject, Sendable {
    /// Does what can be done.
    /// - Parameter bytes: all that have arrived.
    /// - Returns: whether more can be done when more bytes have arrived.
    func advance(_ bytes: Data) -> Bool
    /// Ends what is under way, on any thread: nobody needs the object any more.
    func cancel()
}

/// Decides which prefixes of the bytes that arrive are worth a preview. A value.
package protocol PreviewScan: Sendable {
    /// Returns the length of a prefix of `data` that makes a better preview than the last one; `nil` if there is none.
    mutating func preview(in data: Data) -> Int?
    var isPointless: Bool { get }
}
