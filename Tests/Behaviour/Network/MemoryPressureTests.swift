import TestSupport
import Testing

@Suite("Under memory pressure a cache keeps less in memory", .timeLimit(.minutes(2)))
struct MemoryPressureTests {
    private static let entry = 10_000
    private static let limit = 1 << 20
    private let pressure = ManualMemoryPressure()

    private func test(
        _ folder: TemporaryFolder? = nil, _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache(folder: folder) {
            $0.memoryPressure = pressure
            $0.memoryLimit = Self.limit
            change(&$0)
        }
    }

    private func fill(_ cache: DataCache, _ count: Int = 90) throws {
        for number in 0..<count { try cache.addData(Data(count: Self.entry), for: url("\(number)")) }
    }

    private func kept(_ cache: DataCache) -> [Int] {
        (0..<200).filter { cache.cachedSource(for: url("\($0)")) == .memory }
    }

    @Test(
        "whatever came before, moderate keeps half, severe nothing, and afterwards all fits again",
        arguments: [
            [.moderate, .severe, .normal], [.severe, .moderate, .normal], [.severe, .normal], [.moderate, .normal],
            [.moderate, .severe, .moderate, .severe, .moderate, .normal],
        ] as [[MemoryPressure]])
    func levels(levels: [MemoryPressure]) async throws {
        let test = test()
        try fill(test.cache)
        #expect(test.cache.memoryCount == 90 && test.cache.memoryPressure == .normal)
        #expect(test.cache.readData(for: url("3")) != nil)
        for (step, level) in levels.enumerated() {
            pressure.level = level
            #expect(test.cache.memoryPressure == level)
            if step == 0, level == .moderate {
                let half = kept(test.cache)
                #expect(half == [3] + ((90 - half.count + 1)..<90), "what was used last is kept")
            }
            if level == .severe { #expect(test.cache.memorySize == 0 && test.cache.memoryCount == 0) }
            try fill(test.cache)
            switch level {
            case .normal: #expect(test.cache.memoryCount == 90)
            case .moderate:
                let range = (Self.limit / 2 - 2 * Self.entry)...(Self.limit / 2)
                #expect(range.contains(test.cache.memorySize), "\(test.cache.memorySize)")
            case .severe: #expect(test.cache.memorySize == 0)
            }
        }
    }

    @Test("a limit that is set meanwhile holds in half, and afterwards as it was set; a large entry fits into half")
    func limitsChange() async throws {
        pressure.level = .moderate
        let test = test()
        try test.cache.addData(Data(count: 100_000), for: url("large"))
        #expect(test.cache.memoryCount == 1)
        test.cache.memoryLimit = 1 << 21
        test.cache.memoryCountLimit = 21
        try fill(test.cache)
        #expect(test.cache.memoryCount == 11)
        pressure.level = .severe
        test.cache.memoryCountLimit = nil
        try fill(test.cache)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        try fill(test.cache, 190)
        #expect(test.cache.memoryCount == 190)
    }

    @Test("while it is severe calls are answered, by the network and the disk, and not kept in memory")
    func answers() async throws {
        pressure.level = .severe
        let test = test(TemporaryFolder())
        test.transport.script(url("a"), [.body(Data("a".utf8))])
        #expect(try await test.cache.getData(url("a")).value == Data("a".utf8))
        await test.cache.idle()
        #expect(test.cache.memoryCount == 0 && test.cache.diskCount == 1)
        #expect(try await test.cache.getData(url("a")).response.source == .disk)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        #expect(try await test.cache.getData(url("a")).response.source == .disk)
        #expect(try await test.cache.getData(url("a")).response.source == .memory)
    }

    @Test("typed values follow too, also those made while memory is short")
    func values() async throws {
        let test = test()
        func fill() async throws {
            for number in 0..<10 {
                let target = url("\(number)")
                test.transport.script(target, [.body(Data("[\(number)]".utf8))])
                _ = try await test.cache.getValue([Int].self, from: target).value
            }
        }
        try await fill()
        let size = test.cache.valueMemorySize
        #expect(size > 0)
        pressure.level = .severe
        #expect(test.cache.valueMemorySize == 0)
        try await fill()
        #expect(test.cache.valueMemorySize == 0)
        pressure.level = .normal
        try await fill()
        #expect(test.cache.valueMemorySize == size)
    }

    @Test(
        "events tell what went and why; a cache that has shut down observes nothing, and without a monitor all is well")
    func told() async throws {
        let record = EventRecord()
        let test = test { $0.eventSinks.append(record) }
        try fill(test.cache, 3)
        let size = test.cache.memorySize
        pressure.level = .severe
        #expect(
            record.events.cleanings == [.init(tier: .memory, reason: .memoryPressure, entries: 3, bytes: size)])
        #expect(pressure.observerCount > 0)
        await test.cache.shutdown()
        #expect(pressure.observerCount == 0 && test.cache.memoryPressure == .normal)
        let other = TestCache { $0.memoryPressure = nil }
        #expect(other.cache.memoryPressure == .normal)
    }

    @Test("levels that come from many threads while entries do: what is kept fits the last one")
    func concurrency() async throws {
        let test = test()
        for round in 0..<20 {
            let last = MemoryPressure.allCases[round % 3]
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        for step in 0..<100 {
                            if step % 10 == number { pressure.level = MemoryPressure.allCases[(step + number) % 3] }
                            try? test.cache.addData(Data(count: Self.entry), for: url("\(number) \(step)"))
                            _ = test.cache.readData(for: url("\(number) \(step / 2)"))
                        }
                        pressure.level = last
                    }
                }
            }
            let limit = [MemoryPressure.normal: Self.limit, .moderate: Self.limit / 2, .severe: 0][last] ?? -1
            #expect(test.cache.memorySize <= limit)
        }
        pressure.level = .normal
        try fill(test.cache)
        #expect(kept(test.cache).count == 90)
    }

    // MARK: The kernel

    @Test(
        "a program that takes most of its group's memory gives up its cache, and gets it back",
        .enabled(
            if: MemoryGroup.isAllowed,
            "needs the right to make a memory control group (root, a writable cgroup file system)"))
    func group() async throws {
        let group = try MemoryGroup()
        let probe = try group.run(Built.executable("MemoryProbe"))
        // The group goes when nobody is in it any more.
        defer { withExtendedLifetime(group) { probe.end() } }
        let start = await probe.nextLine() ?? ""
        #expect(start.hasPrefix("normal 10"))
        probe.write("take \(group.room(upTo: 0.89))\n")
        let moderate = await probe.nextLine() ?? ""
        #expect(moderate.hasPrefix("moderate "))
        let left = try #require(moderate.split(separator: " ").last.flatMap { Int($0) })
        #expect(left <= 1_048_576)
        probe.write("take 1\n")
        #expect(await probe.nextLine() == start)
        guard Checks.areOn else { return }
        probe.write("take \(group.room(upTo: 0.97))\n")
        var line = await probe.nextLine()
        if line?.hasPrefix("moderate") == true { line = await probe.nextLine() }
        #expect(line == "severe 0")
        probe.write("take 1\n")
        #expect(await probe.nextLine()?.hasPrefix("moderate") == true)
        #expect(await probe.nextLine() == start)
    }

    @Test(
        "so does one that waits for memory, by the kernel's pressure", .inCheck,
        .enabled(
            if: MemoryGroup.hasPressure,
            "needs the right to make control groups, and memory.pressure in them (CONFIG_PSI, cgroup v2)"))
    func stalls() async throws {
        let group = try MemoryGroup()
        // Beside the tests, for the folder of temporary files may be in memory itself.
        let path = Built.executable("thrash-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(atPath: path) }
        // The second program makes the kernel forget the file, which would otherwise count for the tests' own group.
        try runShell(
            "dd if=/dev/urandom of=\(path) bs=1M count=192 conv=fsync && dd of=\(path) oflag=nocache conv=notrunc count=0"
        )
        let probe = try group.run(Built.executable("MemoryProbe"))
        defer { withExtendedLifetime(group) { probe.end() } }
        let start = await probe.nextLine()
        probe.write("take \(group.room(upTo: 0.6))\n")
        probe.write("thrash \(path)\n")
        let pressed = await probe.nextLine() ?? ""
        #expect(pressed.hasPrefix("moderate") || pressed == "severe 0")
        #expect(group.room(upTo: 0.75) > 0, "it is not the use that tells")
        probe.write("take 1\n")
        var line = pressed as String?
        while let next = line, next != start { line = await probe.nextLine() }
        #expect(line == start)
    }
}

/// A control group with limited memory: of version 1 where it has the memory controller, with one of version 2 for the
/// pressure.
final class MemoryGroup {
    static let limit = 160 << 20

    static let isAllowed = (try? MemoryGroup()) != nil
    static let hasPressure = (try? MemoryGroup())?.hasPressure == true

    private var folders: [String] = []
    private let usageFile: String
    private let name = "dipper-\(UUID().uuidString)"

    init() throws {
        let top = "/sys/fs/cgroup"
        let hasTwoAlone = FileManager.default.fileExists(atPath: top + "/cgroup.controllers")
        let two = Self.own("0::", below: hasTwoAlone ? top : top + "/unified")
        if !hasTwoAlone, let one = Self.own("memory:", below: top + "/memory") {
            usageFile = "memory.usage_in_bytes"
            try make(in: one)
            try write("memory.limit_in_bytes")
            // What is not there is not limited: the machine has no swap, or does not count it.
            try? write("memory.memsw.limit_in_bytes")
            if let two { try? make(in: two) }
        } else if let two {
            usageFile = "memory.current"
            try make(in: two)
            try write("memory.max")
            try? write("memory.swap.max", 0)
        } else {
            throw Unavailable(what: "no control groups")
        }
    }

    deinit {
        for folder in folders { rmdir(folder) }
    }

    /// Returns the folder of this process's group in a hierarchy; in a container, the hierarchy's top may be the group.
    private static func own(_ mark: String, below top: String) -> String? {
        let list = (try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8)) ?? ""
        guard let line = list.split(separator: "\n").first(where: { $0.contains(mark) }),
            let path = line.split(separator: ":", omittingEmptySubsequences: false).last
        else { return nil }
        return [top + path, top].first { FileManager.default.fileExists(atPath: $0) }
    }

    private func make(in folder: String) throws {
        guard mkdir("\(folder)/\(name)", 0o755) == 0 else { throw Unavailable(what: "mkdir in \(folder): \(errno)") }
        folders.append("\(folder)/\(name)")
    }

    private func write(_ file: String, _ number: Int = limit) throws {
        guard let handle = FileHandle(forWritingAtPath: "\(folders[0])/\(file)") else {
            throw Unavailable(what: "no \(file)")
        }
        try handle.write(contentsOf: Data("\(number)".utf8))
    }

    var hasPressure: Bool { folders.contains { access("\($0)/memory.pressure", W_OK) == 0 } }

    func run(_ program: String) throws -> LineTool {
        let moves = folders.map { "echo $$ > \($0)/cgroup.procs" }
        return try LineTool("/bin/sh", ["-c", (moves + ["exec \"$0\""]).joined(separator: " && "), program])
    }

    /// How many megabytes are left up to a share of the limit, not counting pages of files.
    func room(upTo share: Double) -> Int {
        func text(_ file: String) -> String {
            (try? String(contentsOfFile: "\(folders[0])/\(file)", encoding: .utf8)) ?? ""
        }
        // Version 1 has lines without "total_" for the group without those in it, which has none.
        let statistics = text("memory.stat").split(separator: "\n").map { $0.split(separator: " ") }
        let files = ["inactive_file", "active_file"].map { name -> Int in
            statistics.first { $0.first.map(String.init) == name }?.last.flatMap { Int($0) } ?? 0
        }
        let used = (Int(text(usageFile).trimmingCharacters(in: .newlines)) ?? 0) - files[0] - files[1]
        return (Int(Double(Self.limit) * share) - used) >> 20
    }
}
