/// The answer that ends a round of a job.
struct JobAnswer: Sendable {
    /// The disk's part in the answer, for calls that wait for the disk.
    enum Keeping: Sendable {
        /// A tier's entry under this key has answered before the network could.
        case kept(CacheKey)
        /// The network has answered, and the answer is being written.
        case written(PendingWrite)
    }

    let response: DataResponse
    let keeping: Keeping
}
