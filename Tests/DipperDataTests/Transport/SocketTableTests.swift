import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The sockets of a pool", .timeLimit(.minutes(5)))
struct SocketTableTests {
    /// A connection to this machine: its socket, the peer's, and the ports.
    private struct Pair {
        let socket: Int32
        let peer: Int32
        let ports: CurlSockets.Ports

        init(to listener: Int32, port: Int) throws {
            socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = in_port_t(port).bigEndian
            address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let socket = socket
            let isThere = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(socket, $0, length) == 0 && getsockname(socket, $0, &length) == 0
                }
            }
            try #require(isThere)
            peer = accept(listener, nil, nil)
            ports = .init(
                local: Int32(in_port_t(bigEndian: address.sin_port)), peer: Int32(port), address: "127.0.0.1")
        }

        func close() {
            Glibc.close(socket)
            Glibc.close(peer)
        }
    }

    @Test("each connection is found by its ports, until its socket is closed")
    func ports() throws {
        let (listener, port) = try NginxServer.boundSocket()
        defer { close(listener) }
        #expect(listen(listener, 100) == 0)
        let sockets = CurlSockets()
        let pairs = try (0..<50).map { _ in try Pair(to: listener, port: port) }
        for pair in pairs { sockets.add(pair.socket) }
        for _ in 0..<2 { for pair in pairs.reversed() { #expect(sockets.socket(with: pair.ports) == pair.socket) } }
        sockets.note(pairs[0].socket, speaksHTTP1: true)
        #expect(sockets.speaksHTTP1(pairs[0].socket))
        for pair in pairs { sockets.remove(pair.socket) }
        for pair in pairs { #expect(sockets.socket(with: pair.ports) == nil) }
        // The number of a socket that is closed comes back with another connection.
        sockets.add(pairs[0].socket)
        #expect(!sockets.speaksHTTP1(pairs[0].socket))
        #expect(sockets.socket(with: pairs[1].ports) == nil)
        #expect(sockets.socket(with: pairs[0].ports) == pairs[0].socket)
        for pair in pairs { pair.close() }
    }

    @Test(
        "a demotion does not shrink the buffer of a connection that other transfers may share",
        arguments: [FetchQueue.fast, .slow])
    func demotion(in queue: FetchQueue) async throws {
        let (listener, port) = try NginxServer.boundSocket()
        defer { close(listener) }
        #expect(listen(listener, 1) == 0)
        let pair = try Pair(to: listener, port: port)
        defer { pair.close() }
        func buffer() -> Int {
            var value: Int32 = -1
            var length = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(pair.socket, SOL_SOCKET, SO_RCVBUF, &value, &length) == 0 ? Int(value) : -1
        }
        CurlLibrary.prepare
        let pool = CurlPool(
            queue, .init(), proxies: ProxySettings(fixed: ""), resolver: HostResolver(), name: "test")
        pool.sockets.add(pair.socket)
        #expect(pool.sockets.socket(with: pair.ports) == pair.socket)
        // Connections to this machine are never limited. The table knows this one by its ports, so a socket without a
        // loopback address takes its place.
        let other = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #expect(dup2(other, pair.socket) == pair.socket)
        close(other)
        let before = buffer()
        let transfer = CurlTransfer(TransferRequest(url: url("a")), pool: pool) { _ in }
        #expect(transfer.connected(from: pair.ports))
        transfer.move(to: .slow)
        // In the pool of slowQueue each transfer has a connection of its own.
        #expect(buffer() == (queue == .slow ? 2 * ReceiveWindow.smallest : before))
        await pool.shutdown()
    }

    @Test("a connection is looked for among those being made, and once it is known none is gone through")
    func cost() throws {
        let (listener, port) = try NginxServer.boundSocket()
        defer { close(listener) }
        #expect(listen(listener, 100) == 0)
        let sockets = CurlSockets()
        let steps = StepCounter()
        sockets.steps = steps
        let pairs = try (0..<50).map { _ in try Pair(to: listener, port: port) }
        for pair in pairs {
            sockets.add(pair.socket)
            #expect(sockets.socket(with: pair.ports) == pair.socket)
        }
        #expect(steps.count == pairs.count, "connections that are open already were gone through")
        // Of what is shut down the kernel knows no peer any more: the table does not ask it.
        for pair in pairs { shutdown(pair.socket, Int32(SHUT_RDWR)) }
        for pair in pairs.reversed() { #expect(sockets.socket(with: pair.ports) == pair.socket) }
        #expect(steps.count == pairs.count, "a known connection was searched for")
        for pair in pairs { pair.close() }
    }
}
