import Foundation
import Synchronization

/// The rules by which an ``ObjectCache`` makes objects. Nothing in the cache itself knows what they are.
///
/// The methods that make something are called on a thread that may be kept for long.
package protocol ObjectMaker: Sendable {
    associatedtype Step: ObjectStep
    associatedtype Product: Sendable
    /// The options of a request that do not distinguish objects.
    associatedtype Context: Sendable = Void
    associatedtype Scan: PreviewScan = NoPreviews

    /// Makes an object from bytes by a path of steps, the first of which decodes.
    /// - Throws: ``DipperError/undecodable`` or ``DipperError/unsupportedFormat`` if the bytes are at fault.
    func make(_ data: Data, by steps: [Step], _ task: MakingTask) throws(DipperError) -> Product

    /// Makes an object from the object of the steps before.
    func make(_ parent: Product, by steps: [Step], _ task: MakingTask) throws(DipperError) -> Product

    /// Makes the object of a path from its stored form.
    func restore(_ form: Data, of path: [Step], _ task: MakingTask) throws(DipperError) -> Product

    /// Makes a coarse object from the first bytes; `nil` if they are too few.
    func preview(_ data: Data, by steps: [Step], _ task: MakingTask) -> Product?

    /// Returns the memory that an object takes, in bytes.
    func cost(of product: Product) -> Int

    /// Returns an estimate of the memory that making an object from bytes takes, in bytes.
    /// - Parameter steps: the steps; none for an object that is made from its stored form.
    func workingCost(of data: Data, by steps: [Step]) -> Int

    /// Returns the key under which the tiers keep the object of a path. It is derived from the key of the bytes.
    func key(of bytes: CacheKey, _ path: [Step]) -> CacheKey

    /// Returns the path whose object, if the program has added it, takes the place of the object of a path of one step.
    func addedPath(for path: [Step]) -> [Step]

    /// Returns whether an object is kept in memory.
    /// - Parameters:
    ///   - contexts: those of the requests that have waited for it.
    ///   - isUrgent: whether one of them is urgent.
    func keepsInMemory(_ contexts: [Context], isUrgent: Bool) -> Bool

    /// Returns whether bytes are removed from disk once a stored form has been made of them.
    /// - Parameter contexts: those of all requests for the bytes.
    func dropsBytes(_ contexts: [Context]) -> Bool

    /// Returns whether ``form(of:madeOf:by:_:)`` needs all of the bytes.
    func needsBytes(_ path: [Step], _ context: Context?) -> Bool

    /// Returns the part of the bytes that ``form(of:madeOf:by:_:)`` needs.
    func excerpt(of data: Data, by path: [Step]) -> Data?

    /// Returns the stored form of an object.
    /// - Parameters:
    ///   - excerpt: the part of the bytes that the maker has asked for; `nil` for an object that the program has added.
    ///   - context: that of the request that decides; `nil` for an object that the program has added.
    func form(
        of product: Product, madeOf excerpt: Data?, by path: [Step], _ context: Context?
    ) throws(DipperError) -> Data

    /// Returns the place of the program's own in which an object is made; `nil` for the threads of the cache.
    func place(for path: [Step]) -> (@Sendable (@escaping @Sendable () -> Void) -> Void)?

    /// Takes note that so many bytes more wait to be made into objects, or fewer.
    func note(waiting bytes: Int)

    /// Takes note that the stored form of an object could not be written.
    func note(_ error: any Error, writing key: CacheKey)
}

extension ObjectMaker {
    package func restore(_ form: Data, of path: [Step], _ task: MakingTask) throws(DipperError) -> Product {
        try make(form, by: path, task)
    }

    package func preview(_ data: Data, by steps: [Step], _ task: MakingTask) -> Product? { nil }
    package func workingCost(of data: Data, by steps: [Step]) -> Int { 0 }
    package func addedPath(for path: [Step]) -> [Step] { path }
    package func keepsInMemory(_ contexts: [Context], isUrgent: Bool) -> Bool { true }
    package func dropsBytes(_ contexts: [Context]) -> Bool { false }
    package func needsBytes(_ path: [Step], _ context: Context?) -> Bool { false }
    package func excerpt(of data: Data, by path: [Step]) -> Data? { nil }
    package func form(
        of product: Product, madeOf excerpt: Data?, by path: [Step], _ context: Context?
    ) throws(DipperError) -> Data { throw .unsupportedFormat }
    package func place(for path: [Step]) -> (@Sendable (@escaping @Sendable () -> Void) -> Void)? { nil }
    package func note(waiting bytes: Int) {}
    package func note(_ error: any Error, writing key: CacheKey) {}
}

/// The work of making one object: whether it is still wanted, and the events that it tells.
package struct MakingTask: Sendable {
    /// Returns whether no request waits for the object any more.
    package let isCancelled: @Sendable () -> Bool
    private let key: CacheKey
    private let call: CacheEvent.ID?
    private let events: EventHub?

    /// - Parameters:
    ///   - key: the key of the bytes.
    ///   - call: the call that has brought the bytes.
    ///   - events: the hub that is told; `nil` for none.
    init(
        _ key: CacheKey, call: CacheEvent.ID? = nil, _ events: EventHub? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) {
        self.key = key
        self.call = call
        self.events = events
        self.isCancelled = isCancelled
    }

    /// Decodes bytes, and tells the begin and the end.
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

/// Decides which prefixes of the bytes that arrive are worth a preview. A value.
package protocol PreviewScan: Sendable {
    init()
    /// Returns the length of a prefix that makes a better preview than the last one; `nil` if there is none.
    /// - Parameter data: the bytes that have arrived so far.
    mutating func preview(in data: Data) -> Int?
    /// Whether there will never be a preview.
    var isPointless: Bool { get }
}

/// The scan of objects without previews.
package struct NoPreviews: PreviewScan {
    package init() {}
    package mutating func preview(in data: Data) -> Int? { nil }
    package var isPointless: Bool { true }
}
