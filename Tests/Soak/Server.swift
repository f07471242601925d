import FaultServer
import Foundation
import TortureSupport

/// A fault server in a separate process, which is killed and restarted on the same port.
final class Server {
    let port: Int
    private var child: Child?

    init() async throws {
        // A port that was free a moment ago.
        let server = try await FaultServer.start()
        port = server.port
        await server.stop()
    }

    deinit { stop() }

    func start() {
        if child == nil { child = Child(again: ["serve", "\(port)"]) }
    }

    func startAndWait() async {
        start()
        // The kernel gives no notification when another process starts to listen, so this polls.
        while !isListening { try? await Task.sleep(for: .milliseconds(5)) }
    }

    private var isListening: Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    func stop() {
        child?.end()
        child = nil
    }

    // MARK: In its own process

    static func serve(_ port: Int) async -> Never {
        let parent = getppid()
        guard let server = try? await FaultServer.start(port: port, files: Pictures.files()) else { exit(71) }
        while getppid() == parent {
            try? await Task.sleep(for: .seconds(1))
            server.resetLog()
        }
        exit(0)
    }
}
