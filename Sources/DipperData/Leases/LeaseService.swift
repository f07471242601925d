import Foundation

/// A service by which several caches agree on who fetches a key that all of them want: one holds the lease of the key and
/// fetches, the others wait for its news.
///
/// A lease has two places. Who holds the first one fetches. The second is for one more cache, when the holder brings
/// nothing for too long (``LeaseOptions/patience``), so that at most two ask the server for a key at a time. The caches of
/// one machine that share a folder have a service of their own; others are listed in ``LeaseOptions/services``.
///
/// A service never makes a call fail. One that cannot say who holds a lease reports ``LeaseEvent/unavailable``, and the
/// cache fetches as if it were alone. The cache calls all methods on its loop: they must not block, and report on any
/// thread, also before they return.
public protocol LeaseService: Sendable {
    /// The name of the service in the log.
    var name: String { get }
    /// Whether a place that its holder does not renew is free after a time, also if the holder is only stopped.
    var placesExpire: Bool { get }

    /// Begins the part of a cache in the lease of a key. Nothing is asked before the first call of
    /// ``LeaseClaim/take(_:since:)``.
    /// - Parameters:
    ///   - key: the key that is to be fetched.
    ///   - report: takes the events, in their order, until the claim has ended.
    func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim
}

/// The part of a cache in the lease of one key, for one fetch or one picture that is made.
public protocol LeaseClaim: AnyObject, Sendable {
    /// Tries to take a place, without waiting until it is free. The service reports ``LeaseEvent/taken(_:mayBeKept:lifetime:)``,
    /// ``LeaseEvent/refused(_:)`` or ``LeaseEvent/unavailable``. If no report comes, the cache calls this again; a claim that
    /// has the place already takes it once more.
    /// - Parameters:
    ///   - place: the place to be taken.
    ///   - lookedUp: the system's time at which the cache began to look the key up.
    func take(_ place: LeasePlace, since lookedUp: Date)

    /// Asks for the news of those who hold the places that have been refused, and tells them that a call waits in a queue.
    /// Called again when the queue changes.
    func watch(in queue: FetchQueue)

    /// Tells those who wait how far the holder is, and so renews a lease that expires. The news is not an end.
    func tell(_ news: LeaseNews)

    /// Gives back the place, if the claim has one, tells those who wait how it ended, and stops the reports.
    func end(_ outcome: LeaseNews)
}

/// A place of a lease.
public enum LeasePlace: UInt8, Sendable, Hashable {
    /// The place of the cache that fetches.
    case first
    /// The place of one more cache, which fetches because the first one is too slow.
    case second
}

/// An event that a lease service reports to a claim.
public enum LeaseEvent: Sendable, Hashable {
    /// The cache holds a place: it fetches.
    /// - Parameters:
    ///   - mayBeKept: whether another cache may have kept the entry since the key was looked up, so that it is looked up
    ///     once more.
    ///   - lifetime: the time after which the place is free unless ``LeaseClaim/tell(_:)`` renews it; `nil` if it is held
    ///     until the claim or the process ends.
    case taken(LeasePlace, mayBeKept: Bool, lifetime: Duration?)
    /// Another cache holds the place.
    case refused(LeasePlace)
    /// The service cannot say who holds the lease.
    case unavailable
    /// A holder tells how far it is, or how it has ended.
    case told(LeaseNews, by: LeasePlace)
    /// A holder has died, or no longer knows of the lease.
    case gone(LeasePlace)
    /// The holder of a place cannot be asked for news, at least for now.
    case unheard(LeasePlace)
    /// Others wait for this holder: the most urgent queue in which a call does; `nil` if nobody waits any more.
    case awaited(in: FetchQueue?)
    /// The place that was taken has expired, and another cache may hold it.
    case lost
}

/// The news of a holder for those who wait.
public enum LeaseNews: Sendable, Hashable {
    /// Bytes flow.
    case moving
    /// The holder is alive, and has brought nothing since its last news.
    case still
    /// The holder waits for a back-off or for the time that the server has asked for, at most an hour.
    case pausing(Duration)
    /// The entry, or the failure that is remembered in its place, can be looked up.
    case kept
    /// The holder has an answer that is for itself alone.
    case unshared
    /// The server has answered with a failure that says something about the URL: a status from 400 to 599.
    case failed(DipperError)
    /// The holder has given up without an answer.
    case abandoned

    /// Whether the holder gives back its place with the news.
    public var isEnd: Bool {
        switch self {
        case .moving, .still, .pausing: false
        case .kept, .unshared, .failed, .abandoned: true
        }
    }

    /// The news as a number, to be sent to another process.
    public var code: UInt64 {
        switch self {
        case .moving: 1
        case .still: 2
        case .pausing(let time): 3 | UInt64(min(max(0, time.milliseconds), Self.longestPause)) << 32
        case .kept: 4
        case .unshared: 5
        case .failed(let error):
            Self.number(of: error).map { number in
                let wait = min(max(0, error.retryAfter?.milliseconds ?? 0), Self.longestPause)
                return 6 | UInt64(number) << 8 | UInt64(wait) << 32
            } ?? 7
        case .abandoned: 7
        }
    }

    /// Reads news that another process has sent; `nil` for a number that is none.
    public init?(code: UInt64) {
        let time = Duration.milliseconds(min(Int(code >> 32), Self.longestPause))
        switch code & 0xFF {
        case 1: self = .moving
        case 2: self = .still
        case 3: self = .pausing(time)
        case 4: self = .kept
        case 5: self = .unshared
        case 6:
            let number = Int(code >> 8 & 0xFF_FFFF)
            var error = DipperError.status(number)
            guard Self.number(of: error) != nil else { return nil }
            if time > .zero { error.retryAfter = time }
            self = .failed(error)
        case 7: self = .abandoned
        default: return nil
        }
    }

    /// In milliseconds.
    private static let longestPause = 3_600_000
    /// The statuses that say something about a request, the credentials or the proxy of one cache.
    private static let ofRequest: Set = [401, 407, 408, 412, 416, 417, 431]

    /// - Returns: `nil` for a failure that others need not have: a time limit or a configuration may be one cache's own.
    private static func number(of error: DipperError) -> Int? {
        error.status.flatMap { (400...599).contains($0) && !ofRequest.contains($0) ? $0 : nil }
    }

    /// The news of work that has failed for good.
    /// - Parameter isOfURL: whether the request is one that others would make as well.
    init(failure error: DipperError, isOfURL: Bool) {
        self =
            error == .cancelled || error == .shutDown
            ? .abandoned : isOfURL && Self.number(of: error) != nil ? .failed(error) : .unshared
    }
}

/// The options by which caches keep from fetching one key several times at once; see
/// ``DataCache/Configuration/leases``.
public struct LeaseOptions: Sendable {
    /// Whether the caches and processes that have the same folder fetch a key once for all. Each fetches for itself on a
    /// file system that is not known to be local, and where a folder has no locks or sockets.
    ///
    /// The kernel gives the leases of a process back when it ends. A program that calls `fork` without `exec` must let its
    /// child end first: the child has the locks as well, and others wait for ``longestWait``.
    public var sharesFolder = true
    /// The services that are asked after the folder's own, in this order; see ``LeaseService``.
    public var services: [any LeaseService] = []
    /// The longest that others wait for a cache that brings no bytes: one that is stopped, or whose server says nothing.
    /// Then one more of them fetches. A service that does not answer is asked again for as long.
    public var patience = Duration.seconds(5)
    /// The longest that others wait for a cache whose bytes flow, or for several that take over from one another. Then one
    /// more of them fetches. The time of a back-off does not count.
    ///
    /// A cache whose program has removed an entry, or all, waits for nobody for as long: what others fetch may have been
    /// asked for before.
    public var longestWait = Duration.seconds(30)

    /// Creates the default options.
    public init() {}
}
