import Synchronization
import TestSupport

/// Two network namespaces joined by pairs of virtual interfaces: one for the fetching cache, one for a fault server.
///
/// | | the fetching side | the serving side |
/// |---|---|---|
/// | cable N | `upN`: 10.7N.0.2/24, fd7N::2/64 | `sN`: 10.7N.0.1/24, fd7N::1/64 |
/// | beyond the cables | | `lo`: 203.0.113.1/32 |
final class Namespaces {
    /// A sentence that says why network namespaces cannot be used; `nil` if they can.
    static let missing: String? = {
        guard getuid() == 0 else { return "Network namespaces are made by root alone." }
        for (name, package) in [("ip", "iproute2"), ("curl", "curl"), ("python3", "python3")] where tool(name) == nil {
            return "The tool \(name) is missing (package \(package))."
        }
        for name in ["dipper", "NetworkProbe", "ShapedLink"]
        where !FileManager.default.isExecutableFile(atPath: Built.executable(name)) {
            return "The program \(name) is not built."
        }
        sweep()
        guard let net = try? Namespaces() else { return "This system lets nobody make network namespaces." }
        net.close()
        return nil
    }()

    private static let count = Mutex(0)
    let near: String
    let far: String
    private var port = ""
    private var programs: [LineTool] = []
    private let folder = TemporaryFolder()

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
                try ip(name, "link set lo up")
            }
            for number in 0..<cables { try connect(number) }
            try ip(far, "addr add 203.0.113.1/32 dev lo")
        } catch {
            close()
            throw error
        }
    }

    deinit { close() }

    /// Ends the programs in the namespaces and removes the namespaces. Calling it again is harmless.
    func close() {
        for program in programs { program.end() }
        programs = []
        for name in [near, far] { _ = try? Self.run("ip", ["netns", "del", name]) }
        try? FileManager.default.removeItem(atPath: settings)
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
    func ip(_ namespace: String, _ commands: String) throws {
        try Self.run("ip", ["-n", namespace, "-batch", "-"], input: commands + "\n")
    }

    func url(_ host: String, _ path: String) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(port)\(path)"
    }

    // MARK: Programs

    /// Makes namespaces with a fault server in them.
    static func serving(cables: Int = 1) async throws -> Namespaces {
        let net = try Namespaces(cables: cables)
        try await net.serve()
        return net
    }

    func serve() async throws {
        let server = try start(far, Built.executable("NetworkProbe"), ["serve", "::"])
        guard let line = await server.nextLine() else { throw Unavailable(what: "the server does not start") }
        port = line
    }

    func probe(_ arguments: [String] = []) throws -> Probe {
        Probe(try start(near, Built.executable("NetworkProbe"), [folder.path + "/probe"] + arguments))
    }

    func dipper() throws -> LineTool {
        let arguments = ["batch", "--json", "--retries", "0", "--cache-dir", folder.path + "/dipper"]
        return try start(near, Built.executable("dipper"), arguments)
    }

    /// Joins the namespaces by one more link, of 20 Mbit/s with a round trip of 50 ms and a queue of 1 MB; the server
    /// is 10.211.0.2 there.
    func shapedLink() async throws -> LineTool {
        let shape = ["--rate", "20", "--round-trip", "50", "--queue", "1000000"]
        let link = try LineTool(Built.executable("ShapedLink"), ["--client", near, "--server", far] + shape)
        programs.append(link)
        guard await link.nextLine() == "ready" else { throw Unavailable(what: "the shaped link does not come up") }
        return link
    }

    /// Starts a name server at 203.0.113.1, which the near side asks. It prints each question as `NAME TYPE`.
    /// - Parameter names: names and their addresses, as in `both.test=::1,10.70.0.1`. Questions for a name that begins
    ///   with `hanging` are answered when a line is written to the server.
    func nameServer(_ names: [String]) async throws -> LineTool {
        // ip-netns(8) puts the files of this folder in the place of those in /etc.
        try FileManager.default.createDirectory(atPath: settings, withIntermediateDirectories: true)
        let texts = [
            "resolv.conf": "nameserver 203.0.113.1\noptions timeout:20 attempts:3\n",
            "nsswitch.conf": "hosts: files dns\n",
        ]
        for (name, text) in texts { try Data(text.utf8).write(to: URL(fileURLWithPath: settings + "/" + name)) }
        try ip(near, "route add default via 10.70.0.1")
        let server = try start(far, "python3", ["-u", "-c", Self.nameServer] + names)
        guard await server.nextLine() == "ready" else { throw Unavailable(what: "the name server does not start") }
        return server
    }

    /// Makes the hosts file of the near side: a pipe that nobody writes, or a file with a text.
    func setHosts(_ text: String?) throws {
        try FileManager.default.createDirectory(atPath: settings, withIntermediateDirectories: true)
        if let text {
            try Data(text.utf8).write(to: URL(fileURLWithPath: settings + "/hosts"))
        } else if mkfifo(settings + "/hosts", 0o644) != 0 {
            throw Unavailable(what: "no pipe can be made")
        }
    }

    private var settings: String { "/etc/netns/\(near)" }

    private func start(_ namespace: String, _ program: String, _ arguments: [String]) throws -> LineTool {
        let started = try LineTool(Self.tool("ip") ?? "ip", ["netns", "exec", namespace, program] + arguments)
        programs.append(started)
        return started
    }

    /// Messages are as in RFC 1035: a head of 12 bytes, labels with their lengths, and the type and class.
    private static let nameServer = """
        import socket, struct, sys, threading
        names = dict(word.split('=') for word in sys.argv[1:])
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(('203.0.113.1', 53))
        release = threading.Event()
        def answer(query, peer, name, kind, end):
            family = socket.AF_INET6 if kind == 28 else socket.AF_INET
            found = [a for a in names.get(name, '').split(',') if a and (':' in a) == (kind == 28)]
            data = [socket.inet_pton(family, a) for a in found]
            records = [struct.pack('>HHHIH', 0xC00C, kind, 1, 60, len(d)) + d for d in data]
            flags = 0x8180 if name in names else 0x8183
            head = query[:2] + struct.pack('>HHHHH', flags, 1, len(records), 0, 0)
            server.sendto(head + query[12:end] + b''.join(records), peer)
        def later(*question):
            release.wait()
            answer(*question)
        def serve():
            while True:
                query, peer = server.recvfrom(4096)
                labels, end = [], 12
                while query[end]:
                    labels.append(query[end + 1:end + 1 + query[end]].decode())
                    end += 1 + query[end]
                name, kind = '.'.join(labels).lower(), struct.unpack('>H', query[end + 1:end + 3])[0]
                print(name, kind)
                question = (query, peer, name, kind, end + 5)
                if name.startswith('hanging'): threading.Thread(target=later, args=question, daemon=True).start()
                else: answer(*question)
        print('ready')
        threading.Thread(target=serve, daemon=True).start()
        for line in sys.stdin: release.set()
        """

    struct Served: Decodable {
        var path: String
        var startMS: Double
        var endMS: Double?
    }

    func served() throws -> [Served] {
        let data = try Self.run("ip", ["netns", "exec", far, "curl", "-s", url("127.0.0.1", "/log")])
        return try JSONDecoder().decode([Served].self, from: data)
    }

    // MARK: Tools

    private static func tool(_ name: String) -> String? {
        let folders =
            ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
            + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return folders.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    @discardableResult
    private static func run(_ name: String, _ arguments: [String], input: String = "") throws -> Data {
        try runProgram(tool(name) ?? name, arguments, input: input)
    }

    /// Removes the namespaces of test runs that were killed, and their settings.
    private static func sweep() {
        let list = (try? run("ip", ["netns", "list"])).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let settings = (try? FileManager.default.contentsOfDirectory(atPath: "/etc/netns")) ?? []
        for line in list.split(separator: "\n").map(String.init) + settings {
            guard let name = line.split(separator: " ").first, name.hasPrefix("dipper-test-"),
                let owner = name.split(separator: "-").dropFirst(2).first.flatMap({ pid_t($0) }), kill(owner, 0) != 0
            else { continue }
            _ = try? run("ip", ["netns", "del", String(name)])
            try? FileManager.default.removeItem(atPath: "/etc/netns/\(name)")
        }
    }
}

/// A running NetworkProbe and the events that it has printed.
final class Probe {
    struct Event: Decodable, Sendable {
        var event: String
        var ms: Double
        var url: String?
        var error: String?
        var fatal: Bool?
        var source: String?
        var bytes: Int?
        var attempts: Int?
        var checksum: String?
        var answer: Bool?
    }

    private(set) var events: [Event] = []
    private let tool: LineTool

    init(_ tool: LineTool) { self.tool = tool }

    func send(_ command: String) { tool.write(command + "\n") }

    @discardableResult
    func wait(_ kind: String, _ url: String? = nil, after start: Int = 0) async throws -> Event {
        var position = start
        while true {
            while position < events.count {
                let event = events[position]
                if event.event == kind, url == nil || event.url == url { return event }
                position += 1
            }
            guard let line = await tool.nextLine() else { throw Unavailable(what: "the probe ended before \(kind)") }
            events.append(try JSONDecoder().decode(Event.self, from: Data(line.utf8)))
        }
    }

    /// Makes a call and waits for its end.
    func get(_ url: String) async throws -> Event {
        send("get \(url)")
        return try await wait("end", url)
    }

    func ask(_ command: String, _ kind: String) async throws -> Event {
        let start = events.count
        send(command)
        return try await wait(kind, after: start)
    }

    func reaches(_ host: String) async throws -> Bool { try await ask("reach \(host)", "reach").answer == true }

    func waitUntil(_ host: String, isReachable: Bool) async throws {
        while true {
            let start = events.count
            if try await reaches(host) == isReachable { return }
            try await wait("network", after: start)
        }
    }

    func count(_ kind: String) -> Int { events.count { $0.event == kind } }

    func nextLine() async -> String? { await tool.nextLine() }
}
