extension FaultServer {
    /// One request the server got, and how far its response has come.
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

        /// The number of the connection it came on, counted over the life of the server from 1.
        public let connection: Int

        /// When the head of the request had arrived.
        public let start: ContinuousClock.Instant

        /// When the response was done: handed to the kernel as a whole, or its connection closed by
        /// either side. `nil` while it is under way.
        public internal(set) var end: ContinuousClock.Instant?

        /// How many bytes of the response's body the kernel has taken: without chunk framing, of the
        /// coded form when there is a Content-Encoding, counted in pieces of at most 64 KiB.
        public internal(set) var bytesSent: Int

        /// The status of the response; 0 until its head is sent.
        public internal(set) var status: Int

        /// The value of a header field, several lines of that name joined by `", "` (RFC 9110,
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
