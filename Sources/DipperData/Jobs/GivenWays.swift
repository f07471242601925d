/// The transfers of a job that were held back and broken off without counting as failed.
struct GivenWays: Sendable {
    private var count = 0
    /// The bytes of the partial body when the count began.
    private var start = 0

    /// Counts an attempt that was held back and broken off.
    /// - Parameter bytes: the length of the partial body.
    /// - Returns: whether the attempt does not count as failed. A server that breaks off after a few bytes each time
    ///   has failed in the end.
    mutating func add(bytes: Int) -> Bool {
        if bytes - start >= Self.wayBytes { (count, start) = (0, bytes) }
        count += 1
        return count <= Self.mostWays
    }

    private static let wayBytes = 64 << 10
    private static let mostWays = 16
}
