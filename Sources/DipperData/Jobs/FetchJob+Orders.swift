// The consequences of a job's events for the engine. Values named `dropped` are to be released without a lock.
extension FetchJob.State {
    /// The order to start a transfer.
    struct Start: Sendable {
        let number: Int
        let orders: Orders
        let inherited: Int
        let dropped: JoinedBody?
    }

    /// The decisions that a transfer is to be told of.
    struct Orders: Sendable, Hashable {
        let queue: FetchQueue
        let isThrottled: Bool
        let isAborted: Bool
    }

    /// A transfer to whose host there was no way, and the bytes that had arrived then.
    struct Sighting: Sendable {
        let number: Int
        let received: Int
    }
}
