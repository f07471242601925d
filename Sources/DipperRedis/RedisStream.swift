#if Redis
    import CSSL
    internal import DipperData
    import Foundation
    import Glibc

    /// The settings of TLS connections. Reading the certificates takes milliseconds, so it is done once, off the loop.
    final class TLSSettings: Sendable {
        // OpenSSL counts the references itself, and guards what is in it.
        nonisolated(unsafe) fileprivate let pointer: OpaquePointer

        /// - Parameter authorities: a file with the certificates to trust; `nil` for those of the system.
        init(authorities: String?) throws(DipperError) {
            guard let settings = dipper_tls_settings(authorities) else {
                ERR_clear_error()
                throw .tlsRejected.with(detail: "the certificates of the authorities cannot be read")
            }
            pointer = settings
        }

        deinit { SSL_CTX_free(pointer) }
    }

    /// A socket address as the system has it.
    struct SocketAddress: Sendable {
        private let bytes: [UInt8]

        init(path: String) {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            bytes = withUnsafeBytes(of: &address) { Array($0) }
        }

        /// Looks up a host, which may take long.
        @Sendable static func lookUp(_ host: String, port: UInt16) throws(DipperError) -> [SocketAddress] {
            var hints = addrinfo()
            hints.ai_family = AF_UNSPEC
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            var list: UnsafeMutablePointer<addrinfo>?
            let code = getaddrinfo(host, "\(port)", &hints, &list)
            guard code == 0, let list else { throw .hostNotFound.with(detail: String(cString: gai_strerror(code))) }
            defer { freeaddrinfo(list) }
            return sequence(first: list, next: { $0.pointee.ai_next }).compactMap { entry in
                entry.pointee.ai_addr.map {
                    SocketAddress(bytes: Array(UnsafeRawBufferPointer(start: $0, count: Int(entry.pointee.ai_addrlen))))
                }
            }
        }

        private init(bytes: [UInt8]) { self.bytes = bytes }

        /// Returns a socket that is being connected.
        func connect() throws(DipperError) -> Int32 {
            let family = bytes.withUnsafeBytes { Int32($0.load(as: sa_family_t.self)) }
            let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
            let descriptor = socket(family, Int32(kind), 0)
            guard descriptor >= 0 else { throw .system(errno) }
            var one: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
            let result = bytes.withUnsafeBytes { bytes in
                bytes.withMemoryRebound(to: sockaddr.self) {
                    Glibc.connect(descriptor, $0.baseAddress, socklen_t(bytes.count))
                }
            }
            guard result == 0 || errno == EINPROGRESS else {
                let failure = DipperError.system(errno)
                close(descriptor)
                throw failure
            }
            return descriptor
        }
    }

    extension DipperError {
        static func system(_ number: Int32) -> DipperError {
            let kind: DipperError =
                switch number {
                case ENETUNREACH, EHOSTUNREACH, ENETDOWN: .unreachable
                case ETIMEDOUT: .timedOut
                case ECONNRESET, EPIPE: .connectionLost
                default: .connectionFailed
                }
            return kind.with(detail: String(cString: strerror(number)))
        }
    }

    /// A stream of bytes on a socket, with TLS or without. ``end()`` must be called.
    @Loop
    final class RedisStream {
        enum Step {
            case moved(Int)
            /// Nothing can be moved now. Only a write may have to wait until the socket takes bytes.
            case blocked(untilWritable: Bool)
            case ended(DipperError)
        }

        let descriptor: Int32
        private let tls: OpaquePointer?

        /// - Parameter tls: the settings, and the name that the server's certificate must have.
        init?(_ descriptor: Int32, _ tls: (settings: TLSSettings, host: String)?) {
            self.descriptor = descriptor
            guard let tls else {
                self.tls = nil
                return
            }
            guard let client = dipper_tls(tls.settings.pointer, descriptor, tls.host) else { return nil }
            self.tls = client
        }

        /// Whether bytes that the socket no longer has may still have to be read.
        var holdsBytes: Bool { tls != nil }

        func end() {
            if let tls { SSL_free(tls) }
            close(descriptor)
        }

        /// Returns the error of a connect that has ended; `nil` for success.
        static func errorOfConnect(_ descriptor: Int32) -> DipperError? {
            var (number, size) = (Int32(0), socklen_t(4))
            getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size)
            return number == 0 ? nil : .system(number)
        }

        func read(into buffer: UnsafeMutableRawBufferPointer) -> Step {
            if tls != nil { return move { SSL_read($0, buffer.baseAddress, Int32(clamping: buffer.count)) } }
            return plain(recv(descriptor, buffer.baseAddress, buffer.count, 0))
        }

        func write(_ bytes: UnsafeRawBufferPointer) -> Step {
            if tls != nil { return move { SSL_write($0, bytes.baseAddress, Int32(clamping: bytes.count)) } }
            let step = plain(send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)))
            if case .blocked = step { return .blocked(untilWritable: true) }
            return step
        }

        private func plain(_ count: Int) -> Step {
            if count > 0 { return .moved(count) }
            if count == 0 { return .ended(.connectionLost) }
            return errno == EAGAIN || errno == EINTR ? .blocked(untilWritable: false) : .ended(.system(errno))
        }

        private func move(_ body: (OpaquePointer) -> Int32) -> Step {
            guard let tls else { return .ended(.connectionLost) }
            ERR_clear_error()
            let count = body(tls)
            if count > 0 { return .moved(Int(count)) }
            switch SSL_get_error(tls, count) {
            case SSL_ERROR_WANT_READ: return .blocked(untilWritable: false)
            case SSL_ERROR_WANT_WRITE: return .blocked(untilWritable: true)
            case SSL_ERROR_SSL:
                let verdict = SSL_get_verify_result(tls)
                let text =
                    verdict == Int(X509_V_OK)
                    ? ERR_reason_error_string(ERR_get_error()) : X509_verify_cert_error_string(verdict)
                return .ended(.tlsRejected.with(detail: text.map { String(cString: $0) } ?? "TLS failed"))
            default: return .ended(.connectionLost)
            }
        }
    }
#endif
