/// An event in the work of a cache.
///
/// ```swift
/// for await event in cache.events {
///     if case .callFailed(let error) = event.kind { print(event.time, event.key, error) }
/// }
/// ```
///
/// Calls, look-ups, attempts, decodes, processing steps and writes begin and end. All events of one piece of work have
/// the same identifier, and ``parent`` is the piece of work that it belongs to: a look-up, an attempt and a
/// write belong to a job, a decode and a step to the call that brought the bytes. Many calls may wait for one job:
/// ``Kind/callJoined(job:)`` links each of them to the job.
///
/// No text of an event holds a secret.
public struct CacheEvent: Sendable {
    /// The time since the cache was created, on the cache's clock.
    public let time: Duration
    /// The key that the event concerns; empty for an event of the cache as a whole.
    public let key: CacheKey
    /// The identifier of the piece of work that the event belongs to; `nil` for an event of the cache as a whole.
    public let id: ID?
    /// The identifier of the larger piece of work that this one belongs to; `nil` if there is none.
    public let parent: ID?
    /// The kind of the event.
    public let kind: Kind

    /// Creates an event, for tests of sinks.
    public init(time: Duration, key: CacheKey, id: ID? = nil, parent: ID? = nil, kind: Kind) {
        self.time = time
        self.key = key
        self.id = id
        self.parent = parent
        self.kind = kind
    }
}

extension CacheEvent: CustomStringConvertible {
    /// The time, the kind, the identifiers, and the key without secrets.
    public var description: String {
        let number = id.map { " \($0)" } ?? ""
        let owner = parent.map { " of \($0)" } ?? ""
        return "\(time) \(kind)\(number)\(owner) \(key)"
    }
}
