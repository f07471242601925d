import Foundation

/// A pair of network namespaces joined by a link of a given rate, delay and queue. Both are deleted at the end of the
/// run.
final class ShapedLink {
    struct Shape: Sendable {
        /// The rate in each direction, in Mbit/s of IP packets.
        var rate: Double
        /// The round-trip time in milliseconds.
        var roundTrip: Double
        /// The size of the queue before the link, in each direction, in bytes.
        var queue: Int
        /// The share of packets that the link loses.
        var loss = 0.0

        var description: String {
            "\(Int(rate)) Mbit/s each way, round trip \(Int(roundTrip)) ms, queue \(queue >> 10) KB"
        }
    }

    /// The traffic that has come out of the link since the last call of ``ShapedLink/count()``.
    struct Counts: Sendable {
        var downBytes = 0
        var downPackets = 0
        var downDropped = 0
        var upBytes = 0
        var upPackets = 0
        var upDropped = 0
        /// The number of packets on the link now.
        var waiting = 0
    }

    static let serverAddress = "10.211.0.2"
    let shape: Shape
    /// The name of the client's network namespace.
    let client: String
    /// The name of the server's network namespace.
    let server: String
    private let commands: FileHandle
    private let answers: LineReader
    private let cleanUp: Int

    init(_ bench: Bench, _ shape: Shape) throws {
        guard getuid() == 0 else { throw Unsuitable("a link between network namespaces needs root") }
        self.shape = shape
        let source = bench.package.deletingLastPathComponent().appendingPathComponent("Tests/ShapedLink/main.c")
        let program = try bench.compile(source: source.path, "ShapedLink", [])
        Self.removeLeftovers()
        let name = "\(Self.prefix)\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        let (client, server) = (name + "-client", name + "-server")
        (self.client, self.server) = (client, server)
        let process = Process()
        cleanUp = CleanUp.add {
            if process.isRunning {
                process.terminate()
                process.waitUntilExit()
            }
            for name in [client, server] { _ = try? Self.ip(["netns", "delete", name]) }
        }
        do {
            for name in [client, server] { try Self.prepare(name) }
            let (input, output) = (Pipe(), Pipe())
            process.executableURL = URL(fileURLWithPath: program)
            process.arguments = [
                "--client", client, "--server", server, "--rate", "\(shape.rate)", "--round-trip",
                "\(shape.roundTrip)", "--queue", "\(shape.queue)", "--loss", "\(shape.loss)",
                "--server-address", Self.serverAddress,
            ]
            process.standardInput = input
            process.standardOutput = output
            commands = input.fileHandleForWriting
            answers = LineReader(output.fileHandleForReading)
            try process.run()
            guard try answers.next() == "ready" else { throw BenchError("the link does not come up") }
            // The kernel refuses the sysctl outside the first namespace, so the route sets the congestion control.
            try Self.ip([
                "-n", server, "route", "change", "10.211.0.0/24", "dev", "link0", "congctl", "cubic",
            ])
        } catch {
            CleanUp.run(cleanUp)
            throw error
        }
    }

    func end() { CleanUp.run(cleanUp) }

    /// Returns the traffic that has come out of the link since the last call.
    @discardableResult
    func count() throws -> Counts {
        try commands.write(contentsOf: Data("\n".utf8))
        let words = try answers.next().split(separator: " ")
        let numbers = words.compactMap { Int($0) }
        guard words.count == 10, numbers.count == 7 else {
            throw BenchError("the link counts \(words.joined(separator: " "))")
        }
        return Counts(
            downBytes: numbers[0], downPackets: numbers[1], downDropped: numbers[2], upBytes: numbers[3],
            upPackets: numbers[4], upDropped: numbers[5], waiting: numbers[6])
    }

    /// Waits until the traffic of earlier turns has come out of the link.
    func settle() async throws {
        let quiet = Duration.milliseconds(Int(2 * shape.roundTrip) + 100)
        for _ in 0..<200 {
            try count()
            try await Task.sleep(for: quiet)
            let counts = try count()
            if counts.waiting == 0, counts.downPackets == 0, counts.upPackets == 0 { return }
        }
        throw BenchError("the link does not come to rest")
    }

    /// Runs a program in the client's namespace and waits for its end.
    func runAtClient(_ program: String, _ arguments: [String]) throws -> Command.Output {
        try Command.run(Command.require("ip"), ["netns", "exec", client, program] + arguments)
    }

    // MARK: Namespaces

    private static let prefix = "dipper-bench-"

    private static func prepare(_ name: String) throws {
        try ip(["netns", "add", name])
        // Only the measured traffic uses the link, and TCP keeps no metrics from one turn for the next.
        let script = """
            echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
            echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
            echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
            """
        try ip(["netns", "exec", name, "sh", "-ec", script])
    }

    @discardableResult
    private static func ip(_ arguments: [String]) throws -> String {
        try Command.run(Command.require("ip"), arguments).output
    }

    /// Deletes the namespaces of runs that were killed.
    private static func removeLeftovers() {
        guard let list = try? ip(["netns", "list"]) else { return }
        for line in list.split(separator: "\n") {
            guard let name = line.split(separator: " ").first, name.hasPrefix(prefix),
                let owner = name.dropFirst(prefix.count).split(separator: "-").first.flatMap({ pid_t($0) }),
                kill(owner, 0) != 0
            else { continue }
            let inside = (try? ip(["netns", "pids", String(name)])) ?? ""
            for process in inside.split(separator: "\n").compactMap({ pid_t($0) }) { kill(process, SIGKILL) }
            _ = try? ip(["netns", "delete", String(name)])
        }
    }
}
