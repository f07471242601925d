/// The identifier of a request for an object. It is never reused.
package struct ObjectRequestID: Hashable, Sendable, Comparable {
    let number: UInt64
    package static func < (a: Self, b: Self) -> Bool { a.number < b.number }
}

/// The identifier of a look at the tiers.
struct ObjectSearchID: Hashable, Sendable { let number: UInt64 }
/// The identifier of a fetch of bytes.
struct ObjectFetchID: Hashable, Sendable { let number: UInt64 }
/// The identifier of an object that is being made.
struct ObjectNodeID: Hashable, Sendable, Comparable {
    let number: UInt64
    static func < (a: Self, b: Self) -> Bool { a.number < b.number }
}
/// The identifier of an object that is being written to disk.
struct ObjectWriteID: Hashable, Sendable { let number: UInt64 }

/// The identifier of an object that is about to be kept in memory. Later ones have higher numbers.
struct ObjectKeepID: Hashable, Sendable { let number: UInt64 }

/// A piece of work that requests wait for.
enum ObjectWork: Hashable, Sendable {
    case search(ObjectSearchID)
    case fetch(ObjectFetchID)
    case node(ObjectNodeID)
    case write(ObjectWriteID)
}

/// The result of writing an object to disk.
enum ObjectWriteEnd: Sendable, Hashable {
    /// The disk has the object, or has staged it.
    case stored
    /// The object has no stored form, so there is nothing to wait for.
    case unneeded
    /// The object is not on disk.
    case failed
}

/// The news of a fetch that are passed on only to those who ask for them.
package struct FetchInterest: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let progress = Self(rawValue: 1)
    /// Coarse objects, made from the bytes that have arrived.
    package static let previews = Self(rawValue: 2)
}

/// News of a fetch that is under way.
package enum FetchNews: Sendable, Hashable {
    /// An attempt has failed. The fetch waits and tries again.
    case failure(DipperError)
    /// A new attempt begins.
    case retry
    case progress(TaskProgress)
    /// The fetch has ended, after this number of attempts.
    case ended(attempts: Int)
    /// The request has been moved to another queue by its key.
    case moved(FetchQueue)
}

extension ObjectGraph {
    /// The material that an object is made from.
    enum Material: Sendable {
        /// The bytes of the origin.
        case bytes(Kind.Bytes)
        /// The object that the steps before have made.
        case object(Kind.Object)
        /// The form in which the object itself was stored.
        case stored(Kind.Bytes)
        /// The form in which the object was stored when earlier bytes had been fetched, which were the same as these.
        case earlier(Kind.Bytes, same: Kind.Bytes)
    }

    /// A thing that the graph has let go of. Each may be the last to hold code or objects of the program's own.
    enum Freed: Sendable {
        case bytes(Kind.Bytes)
        case object(Kind.Object)
        case origin(Kind.Origin)
        case hold(Kind.Hold)
        case request(Request)
        case search(Search)
        case fetch(Fetch)
        case node(Node)
        case keeping(Keeping)
    }

    /// The answer of the tiers to a look at one path.
    enum Found: Sendable {
        /// Memory has the object.
        case object(Kind.Object, Kind.Version)
        /// The disk has the stored form of the object.
        case stored(Kind.Bytes, Kind.Version)
        /// The bytes of this version, from which objects are being made, answer the request too.
        case underWay(Kind.Version)
        /// The disk has a stored form of the object that may be out of date. It serves if the bytes are still the same.
        case outdated(Kind.Bytes)
        case nothing
    }

    /// An object that has been made and may be kept.
    struct Keeping: Sendable {
        let id: ObjectKeepID
        /// The requests that wait for the object, the oldest first; none if the caller has added it.
        let waiters: [Kind.Waiter]
        /// The request that wants the object most surely on disk.
        let lead: Kind.Waiter?
        /// The origins of these requests.
        let origins: Set<Kind.Origin>
        /// Whether one of the requests is urgent.
        let isUrgent: Bool
        let path: Path
        let object: Kind.Object
        let version: Kind.Version
    }

    /// A step that the driver takes, after it has released its lock and in the order of the actions.
    enum Action: Sendable {
        /// Find out whether the tiers have the bytes that the caller has asked for. Answer with
        /// ``ObjectGraph/decided(_:isThere:into:)``.
        case decide(ObjectSearchID, Kind.Origin, ObjectWant)
        /// Look for the object of a path in memory and on disk. The versions are those of bytes at hand. Answer with
        /// ``ObjectGraph/lookedUp(_:_:into:)``.
        case lookUp(ObjectSearchID, Kind.Origin, Path, versions: [Kind.Version], ObjectWant)
        /// Fetch the bytes of an origin. Answer with ``ObjectGraph/fetched(_:_:_:isStored:isNewest:present:into:)`` or
        /// ``ObjectGraph/fetchFailed(_:_:into:)``.
        case fetch(ObjectFetchID, Kind.Origin, ObjectWant)
        /// Pass on news of a fetch, with ``ObjectGraph/told(_:_:into:)`` and ``ObjectGraph/previewed(_:_:_:into:)``.
        case listen(ObjectFetchID, FetchInterest)
        /// Make the object of a path, by these steps, the last of the path. Answer with ``ObjectGraph/made(_:_:into:)`` or
        /// ``ObjectGraph/makingFailed(_:_:isBroken:into:)``.
        case make(ObjectNodeID, Kind.Version, Kind.Origin.Key, Path, steps: Path, from: Material, ObjectWant)
        /// Change the urgency of work under way.
        case move(ObjectWork, ObjectWant)
        /// End work that no request waits for any more.
        case drop(ObjectWork)
        /// Keep an object in memory, if ``ObjectGraph/mayKeep(_:)`` still says so. Answer with
        /// ``ObjectGraph/kept(_:)``.
        case keep(Keeping)
        /// Write the stored form of an object to disk. Ask ``ObjectGraph/mayWrite(_:)`` before, and answer with
        /// ``ObjectGraph/written(_:_:into:)``. The urgency is `nil` if no request waits and there is no hurry.
        case write(ObjectWriteID, Keeping, ObjectWant?)
        /// Remove from all tiers what was made from the bytes of a key and kept before an object with this identifier
        /// would have been.
        case purge(Kind.Origin, before: ObjectKeepID)
        /// Remove the stored form of an object from tiers, because it cannot be read or was removed while it was
        /// written.
        case discard(Kind.Origin, Path, CacheTiers)
        case deliver([Kind.Waiter], Result<Kind.Object, DipperError>)
        case tell([Kind.Waiter], FetchNews)
        /// Tell which source is asked for.
        case choose([Kind.Waiter], Kind.Origin)
        /// Show a preview.
        case show([Kind.Waiter], Kind.Object)
        /// Call these closures, which have waited for the end of all writes.
        case call([@Sendable () -> Void])
        /// Free what the graph has let go of, outside the lock.
        case release(Freed)
    }
}
