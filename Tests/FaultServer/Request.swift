extension FaultServer {
    /// A request that the server has received, with the state of its response.
    public struct Request: Sendable {
        /// The number of the request, counted over the life of the server from 1.
        public let id: Int

        /// The method, as sent.
        public let method: String

        /// Path and query, as sent.
        public let target: String

        /// The path without the query, percent-encoded as sent.
        public let path: String

        /// The header fields in the order and spelling they came in.
        public let headers: [(name: String, value: String)]

        /// The number of the request's connection, counted over the life of the server from 1.
        public let connection: Int

        /// The time at which the head of the request had arrived.
        public let start: ContinuousClock.Instant

        /// The time at which the response ended: the kernel had taken it completely, or either side closed the
        /// connection. `nil` while the response is running.
        public internal(set) var end: ContinuousClock.Instant?

        /// The number of bytes of the response's body that the kernel has taken, without chunk framing and after
        /// content coding, counted in pieces of at most 64 KiB or of the size that `drip` sets.
        public internal(set) var bytesSent: Int

        /// The status of the response; 0 until its head is sent.
        public internal(set) var status: Int

        /// Returns the value of a header field, with several lines of that name joined by `", "` (RFC 9110, section
        /// 5.3); `nil` if there is none.
        ///
        /// - Parameter name: the name of the field in any case.
        public func header(_ name: String) -> String? {
            let name = name.lowercased()
            let values = headers.filter { $0.name.lowercased() == name }.map(\.value)
            return values.isEmpty ? nil : values.joined(separator: ", ")
        }
    }
}
