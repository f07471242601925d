import Foundation
import Synchronization
import TestSupport

/// Two network namespaces joined by pairs of virtual interfaces: one for the fetching cache, one for a fault server.
///
/// | | the fetching side | the serving side |
/// |---|---|---|
/// | cable N | `upN`: 10.7N.0.2/24, fd7N::2/64 | `sN`: 10.7N.0.1/24, fd7N::1/64 |
/// | beyond the cables | | `lo`: 203.0.113.1/32 |
final class Namespaces {
    struct Failed: Error {
        let what: String
    }

    /// A sentence that says why network namespaces cannot be used; `nil` if they can.
    static let missing: String? = {
        guard getuid() == 0 else { return "Network namespaces are made by root alone." }
        guard tool("ip") != nil else { return "The tool ip is missing (package iproute2)." }
        guard tool("curl") != nil else { return "The tool curl is missing (package curl)." }
        sweep()
        guard let net = try? Namespaces(cables: 1) else { return "This system lets nobody make network namespaces." }
        net.close()
        return nil
    }()

    private static let count = Mutex(0)
    /// The name of the fetching namespace.
    let near: String
    /// The name of the serving namespace.
    let far: String
    private(set) var port = 0
    private var server: Process?
    private var serverInput: Pipe?
    private var probes: [Probe] = []

    init(cables: Int = 1) throws {
        let number = Self.count.withLock { count in
            count += 1
            return count
        }
        near = "dipper-test-\(getpid())-\(number)-near"
        far = "dipper-test-\(getpid())-\(number)-far"
        do {
            for name in [near, far] {
                try Self.run("ip", ["netns", "add", name])
                // Without duplicate address detection, IPv6 addresses can be used at once.
                try Self.run(
                    "ip", ["netns", "exec", name, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad"])
                try Self.run("ip", ["-n", name, "link", "set", "lo", "up"])
            }
            for number in 0..<cables { try connect(number) }
            try ip(far, "addr add 203.0.113.1/32 dev lo")
        } catch {
            close()
            throw error
        }
    }

    deinit { close() }

    /// Ends the processes in the namespaces and removes the namespaces. Calling it again is harmless.
    func close() {
        for probe in probes { probe.stop() }
        probes = []
        try? serverInput?.fileHandleForWriting.close()
        if let server {
            // SIGKILL, because children of Dispatch's threads start with all other signals blocked.
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
        }
        server = nil
        for name in [near, far] { _ = try? Self.run("ip", ["netns", "del", name]) }
    }

    private func connect(_ number: Int) throws {
        try ip(near, "link add up\(number) type veth peer name s\(number) netns \(far)")
        for (name, link, host) in [(near, "up\(number)", 2), (far, "s\(number)", 1)] {
            try ip(
                name,
                """
                link set \(link) up
                addr add 10.7\(number).0.\(host)/24 dev \(link)
                addr add fd7\(number)::\(host)/64 dev \(link) nodad
                """)
        }
    }

    /// Runs commands of `ip`, one a line.
    ///
    /// - Returns: the time at which `ip` had ended, in milliseconds on the monotonic clock.
    @discardableResult
    func ip(_ namespace: String, _ commands: String) throws -> Double {
        try Self.run("ip", ["-n", namespace, "-batch", "-"], input: commands + "\n")
        return Self.now
    }

    /// The time in milliseconds on the monotonic clock.
    static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
    }

    /// Starts a fault server on the far side, on all its addresses.
    func serve() throws {
        let process = Process()
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = Self.tool("ip")
        process.arguments = ["netns", "exec", far, Built.executable("NetworkProbe").path, "serve", "::"]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        server = process
        serverInput = input
        var line = Data()
        while line.last != UInt8(ascii: "\n") {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { throw Failed(what: "the server does not start") }
            line += data
        }
        port = Int(String(decoding: line.dropLast(), as: UTF8.self)) ?? 0
    }

    func url(_ host: String, _ path: String) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(port)\(path)"
    }

    /// Starts a cache on the near side.
    func probe(_ arguments: [String] = []) throws -> Probe {
        guard let ip = Self.tool("ip") else { throw Failed(what: "no ip") }
        let probe = try Probe(ip, ["netns", "exec", near, Built.executable("NetworkProbe").path], arguments)
        probes.append(probe)
        return probe
    }

    /// Waits until the receive buffer of the only connection on the near side has a wanted size, and returns the size.
    func waitForReceiveBuffer(_ isWanted: (Int) -> Bool) throws -> Int {
        while true {
            let data = try Self.run("ip", ["netns", "exec", near, "ss", "-Htnm", "state", "established"])
            let sizes = String(decoding: data, as: UTF8.self).split(whereSeparator: { "(),".contains($0) })
                .filter { $0.hasPrefix("rb") }.compactMap { Int($0.dropFirst(2)) }
            if let size = sizes.first, isWanted(size) { return size }
        }
    }

    /// Starts a program of the package on the near side.
    func tool(_ name: String, _ arguments: [String]) throws -> LineTool {
        guard let ip = Self.tool("ip") else { throw Failed(what: "no ip") }
        return try LineTool(ip, ["netns", "exec", near, Built.executable(name).path] + arguments)
    }

    /// A request that the server received.
    struct Served: Decodable {
        var path: String
        var startMS: Double
    }

    /// Returns all requests that the server has received so far.
    func served() throws -> [Served] {
        let data = try Self.run("ip", ["netns", "exec", far, "curl", "-s", url("127.0.0.1", "/log")])
        return try JSONDecoder().decode([Served].self, from: data)
    }

    // MARK: Tools

    private static func tool(_ name: String) -> URL? {
        ["/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"].map { $0 + name }
            .first { FileManager.default.isExecutableFile(atPath: $0) }.map { URL(fileURLWithPath: $0) }
    }

    @discardableResult
    private static func run(_ name: String, _ arguments: [String], input: String = "") throws -> Data {
        let process = Process()
        let (inputPipe, output) = (Pipe(), Pipe())
        process.executableURL = tool(name)
        process.arguments = arguments
        process.standardInput = inputPipe
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        inputPipe.fileHandleForWriting.write(Data(input.utf8))
        try inputPipe.fileHandleForWriting.close()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failed(what: ([name] + arguments).joined(separator: " ") + "\n" + input)
        }
        return data
    }

    /// Removes the namespaces of test runs that were killed.
    private static func sweep() {
        let list = (try? run("ip", ["netns", "list"])).map { String(decoding: $0, as: UTF8.self) } ?? ""
        for line in list.split(separator: "\n") {
            guard let name = line.split(separator: " ").first, name.hasPrefix("dipper-test-"),
                let owner = name.split(separator: "-").dropFirst(2).first.flatMap({ pid_t($0) }), kill(owner, 0) != 0
            else { continue }
            _ = try? run("ip", ["netns", "del", String(name)])
        }
    }
}
