/// The types that an ``ObjectGraph`` works with.
protocol ObjectKind {
    associatedtype Origin: ObjectOrigin
    associatedtype Step: ObjectStep
    /// The identity of one answer: objects of one version were made from the same bytes.
    associatedtype Version: Hashable & Sendable
    associatedtype Bytes: Sendable
    associatedtype Object: Sendable
    /// The party that waits for an object.
    associatedtype Waiter: Sendable
    /// A thing that a request keeps until its fetch has begun or proves to be unnecessary.
    associatedtype Hold: Sendable

    /// Returns whether the stored form of an object was made from the bytes of a version.
    static func isForm(_ stored: Bytes, of version: Version) -> Bool
}

extension ObjectKind {
    static func isForm(_ stored: Bytes, of version: Version) -> Bool { false }
}

/// The bytes that objects are made from, and how these bytes are asked for. Requests with one origin share a fetch.
package protocol ObjectOrigin: Hashable, Sendable {
    associatedtype Key: Hashable & Sendable

    /// The key of the bytes.
    var key: Key { get }
    /// The key that the caller asked for, if a smaller source may take its place.
    var alias: Key? { get }
    /// Whether it is known which source is asked for.
    var isDecided: Bool { get }
    /// Returns the origin that is asked for.
    /// - Parameter isThere: whether the tiers have the bytes of this one.
    func decided(isThere: Bool) -> Self
    /// Whether the network may replace stored bytes that cannot be decoded.
    var mayRefetch: Bool { get }
    /// The origin that asks the network once, whatever the tiers have.
    var renewed: Self { get }
    /// How objects for this origin are written to disk.
    var storing: ObjectStoring { get }
}

extension ObjectOrigin {
    package var alias: Key? { nil }
    package var isDecided: Bool { true }
    package func decided(isThere: Bool) -> Self { self }
}

/// How an object is written to disk.
package enum ObjectStoring: Int, Sendable, Comparable {
    /// The object is not written.
    case never
    /// The object is written after it has been delivered.
    case background
    /// The object is delivered when it has been written, or when the attempt has failed.
    case awaited
    /// The object is delivered when it has been written. Requests fail with ``DipperError/notWritten`` otherwise.
    case required

    package static func < (a: Self, b: Self) -> Bool { a.rawValue < b.rawValue }
}

/// A step by which an object is made: the first step of a path makes it from bytes, each further step from the object
/// before.
package protocol ObjectStep: Hashable, Sendable {
    /// Returns whether the first step of a path does the work of this step, its second one, in one go.
    func folds(into first: Self) -> Bool
    /// Whether an object whose last step this is has a stored form of its own.
    var isStored: Bool { get }
}

extension ObjectStep {
    package func folds(into first: Self) -> Bool { false }
    package var isStored: Bool { false }
}
