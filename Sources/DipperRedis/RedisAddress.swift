#if Redis
    internal import DipperData
    import Foundation

    /// The place of a server, the prefix of the keys there, and what the server is told first.
    struct RedisAddress: Sendable {
        enum Place: Sendable {
            case host(String, port: UInt16, isSecure: Bool)
            /// A Unix-domain socket.
            case path(String)
        }

        let place: Place
        let prefix: String
        /// The arguments of AUTH, or none. A closure, so that no description of the value shows the password.
        let credentials: @Sendable () -> [String]

        /// - Throws: an error that quotes nothing, because the URL may have a password.
        init(_ text: String) throws(DipperError) {
            let refusal = DipperError.invalidURL.with(
                detail: "a server is redis://HOST, rediss://HOST or unix:///PATH, after // perhaps with USER:PASSWORD@")
            guard let mark = text.firstRange(of: "://") else { throw refusal }
            let scheme = text[..<mark.lowerBound].lowercased()
            guard ["redis", "rediss", "unix"].contains(scheme) else {
                throw .unsupportedScheme.with(detail: "a server is redis://, rediss:// or unix://")
            }
            let parts = text[mark.upperBound...].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
            let end = parts[0].firstIndex(of: "/") ?? parts[0].endIndex
            let authority = parts[0][..<end]
            guard let path = parts[0][end...].removingPercentEncoding else { throw refusal }

            var words: [String] = []
            let at = authority.lastIndex(of: "@")
            if let at {
                words = authority[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                    .compactMap(\.removingPercentEncoding)
                guard words.count == 2 else { throw refusal }
                if words[0].isEmpty { words.removeFirst() }
            }
            credentials = { [words] in words }
            let host = at.map { authority[authority.index(after: $0)...] } ?? authority
            if scheme == "unix" {
                // The kernel's sockaddr_un has 108 bytes, with the final zero.
                guard host.isEmpty, path.count > 1, path.utf8.count < 108, !path.utf8.contains(0) else { throw refusal }
                place = .path(path)
            } else {
                guard let (name, port) = Self.split(host) else { throw refusal }
                place = .host(name, port: port, isSecure: scheme == "rediss")
            }
            var prefix = scheme == "unix" ? "" : path.trimmingCharacters(in: ["/"])
            if parts.count > 1 {
                guard parts[1].hasPrefix("prefix="), let own = parts[1].dropFirst(7).removingPercentEncoding else {
                    throw refusal
                }
                prefix = own
            }
            self.prefix = prefix.isEmpty ? "dipper" : prefix
        }

        private static func split(_ host: Substring) -> (name: String, port: UInt16)? {
            var name = host
            var port: UInt16? = 6_379
            if let colon = host.lastIndex(of: ":"), !host[colon...].contains("]") {
                name = host[..<colon]
                port = UInt16(host[colon...].dropFirst())
            }
            if name.hasPrefix("["), name.hasSuffix("]") {
                name = name.dropFirst().dropLast()
            } else if name.contains(":") {
                return nil
            }
            guard !name.isEmpty, name.utf8.count < 254, !name.utf8.contains(0), let port, port > 0 else { return nil }
            return (name.lowercased(), port)
        }

        /// The name in logs, by which all machines place a key on the same server.
        var name: String {
            switch place {
            case .host(let host, let port, _): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
            case .path(let path): path
            }
        }

        /// The rank of the server for a key: of several servers, that with the highest one has the key (rendezvous hashing).
        func rank(for name: String) -> UInt64 {
            // FNV-1a, and the last steps of splitmix64, because the first alone leaves the upper bits alike.
            var hash: UInt64 = 0xCBF2_9CE4_8422_2325
            for byte in [Array(self.name.utf8), Array(name.utf8)].joined() {
                hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3
            }
            hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
            hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
            return hash ^ hash >> 31
        }
    }
#endif
