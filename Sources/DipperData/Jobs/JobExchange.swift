import Foundation

/// An attempt that is under way: its requests, and the transfer of the present one.
struct JobExchange: Sendable {
    var attempt: Attempt
    /// The present transfer; `nil` between two requests.
    var transfer: (any Transfer)?
    /// The bytes of the partial body when the attempt began.
    let inherited: Int
    /// Whether the attempt was held back since it began.
    var wasThrottled: Bool
    /// Whether the transfer was given up because there is no way to its host.
    var isLost = false
    /// The caller's header fields, changed as the hooks have changed what was sent last. `Vary` is judged by them.
    var sent: HTTPHeaders
    /// The moment at which the last request was sent.
    var requested: TimeInterval = 0
    /// The earlier and the new bytes of a body that is continued, for tasks that look at them.
    var joined: JoinedBody?
}
