import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("The kernel's word on memory", .timeLimit(.minutes(2)))
struct KernelMemoryPressureTests {
    private static let fast = PressureTiming(
        calm: .milliseconds(20), period: .milliseconds(5), spacing: .milliseconds(1))

    /// A monitor, and the levels that its observer finds.
    private final class Heard {
        let monitor: KernelMemoryPressure
        private let observation: ChangeObservation
        private var levels: AsyncStream<MemoryPressure>.Iterator

        init(_ kernel: FakeKernel) {
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let monitor = KernelMemoryPressure(logger: logger, root: kernel.root, fast)
            self.monitor = monitor
            let (stream, continuation) = AsyncStream.makeStream(of: MemoryPressure.self)
            levels = stream.makeAsyncIterator()
            observation = monitor.observe { continuation.yield(monitor.level) }
        }

        /// Returns when the level is as wanted; the time limit ends it if that never comes.
        func wait(_ level: MemoryPressure) async {
            while let next = await levels.next(isolation: #isolation), next != level {}
        }
    }

    @Test("the use of a limit is noticed, and that it ends", arguments: ["memory.max", "memory.high"])
    func use(limit: String) async throws {
        let kernel = try FakeKernel([
            "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/cgroup.controllers": "memory",
            "sys/fs/cgroup/a/\(limit)": "1000", "sys/fs/cgroup/a/memory.current": "100",
        ])
        let heard = Heard(kernel)
        try kernel.write("900", "sys/fs/cgroup/a/memory.current")
        await heard.wait(.moderate)
        try kernel.write("1000", "sys/fs/cgroup/a/memory.current")
        await heard.wait(.severe)
        try kernel.write("100", "sys/fs/cgroup/a/memory.current")
        await heard.wait(.moderate)
        await heard.wait(.normal)
    }

    @Test("pressure that wakes nobody is looked at")
    func times() async throws {
        let kernel = try FakeKernel([
            "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/cgroup.controllers": "",
            "sys/fs/cgroup/a/cgroup.events": "populated 1",
            "sys/fs/cgroup/a/memory.pressure": "some avg10=0.00 total=0\nfull avg10=0.00 total=0\n",
        ])
        let heard = Heard(kernel)
        var total = 0
        /// Tells of more and more waiting, until that has been noticed.
        func press(_ level: MemoryPressure, full: Int) async throws {
            try #require(
                await settle {
                    total += 1_000_000_000
                    try? kernel.write(
                        "some avg10=0.00 total=\(total)\nfull total=\(total * full)\n",
                        "sys/fs/cgroup/a/memory.pressure")
                    return heard.monitor.level >= level
                })
            await heard.wait(level)
        }
        try await press(.moderate, full: 0)
        await heard.wait(.normal)
        try await press(.severe, full: 1)
        await heard.wait(.normal)
    }

    @Test("where it says nothing the level is normal, and the thread ends")
    func deaf() async throws {
        let monitor = KernelMemoryPressure(
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, root: "/nowhere", Self.fast)
        let observation = monitor.observe {}
        await monitor.watch?.join()
        #expect(monitor.level == .normal)
        _ = observation
    }

    @Test("a watch that could not begin is tried again by the next observer")
    func failure() async throws {
        let monitor = KernelMemoryPressure(
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, root: "/nowhere", Self.fast)
        let first = monitor.observe {}
        let watch = try #require(monitor.watch)
        monitor.cannotWatch(watch, EMFILE)
        #expect(monitor.watch == nil)
        let second = monitor.observe {}
        #expect(monitor.watch != nil && monitor.watch !== watch)
        await watch.join()
        await monitor.watch?.join()
        _ = (first, second)
    }

    @Test("one thread runs while anyone observes")
    func thread() async throws {
        let monitor = KernelMemoryPressure(logger: Logger(label: "test"), Self.fast)
        #expect(monitor.watch == nil && monitor.level == .normal)
        var first: ChangeObservation? = monitor.observe {}
        let watch = monitor.watch
        var second: ChangeObservation? = monitor.observe {}
        #expect(watch != nil && monitor.watch === watch)
        first = nil
        #expect(monitor.watch === watch)
        second = nil
        #expect(monitor.watch == nil)
        await watch?.join()
        _ = (first, second)
    }

    @Test(
        "triggers can be set on this machine's own pressure file",
        .enabled(
            if: access("/proc/pressure/memory", W_OK) == 0, "the kernel has no /proc/pressure that may be written to"))
    func triggers() throws {
        for trigger in [StallTrigger.moderate, .severe] {
            let file = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC)
            defer { close(file) }
            #expect(write(file, trigger.text, trigger.text.utf8.count + 1) == trigger.text.utf8.count + 1)
        }
        let sources = PressureSources(root: "", .standard, now: .zero)
        #expect(!sources.isDeaf && sources.polled.count >= 2)
        #expect(sources.use.machine != nil)
    }

    @Test(
        "for real: a program that takes most of its group's memory gives up its cache, and gets it back",
        .enabled(
            if: MemoryGroup.isAllowed,
            "needs the right to make a memory control group (root, a writable cgroup file system)"))
    func limit() async throws {
        let group = try MemoryGroup()
        let probe = try group.run(Built.executable("MemoryProbe"))
        // The group goes when nobody is in it any more.
        defer { withExtendedLifetime(group) { probe.end() } }
        let start = await probe.nextLine() ?? ""
        #expect(start.hasPrefix("normal 10"))
        probe.write("take \(group.room(upTo: 0.89))\n")
        let moderate = await probe.nextLine() ?? ""
        #expect(moderate.hasPrefix("moderate "))
        #expect(Int(moderate.split(separator: " ").last ?? "") ?? .max <= 1 << 20)
        probe.write("take 1\n")
        #expect(await probe.nextLine() == start)
        probe.write("take \(group.room(upTo: 0.97))\n")
        var line = await probe.nextLine()
        if line?.hasPrefix("moderate") == true { line = await probe.nextLine() }
        #expect(line == "severe 0")
        probe.write("take 1\n")
        #expect(await probe.nextLine()?.hasPrefix("moderate") == true)
        #expect(await probe.nextLine() == start)
    }

    @Test(
        "for real: so does one that waits for memory, by the kernel's pressure",
        .enabled(
            if: MemoryGroup.hasPressure,
            "needs the right to make control groups, and memory.pressure in them (CONFIG_PSI, cgroup v2)"))
    func stalls() async throws {
        let group = try MemoryGroup()
        // Beside the tests, for the folder of temporary files may be in memory itself.
        let file = Built.executable("thrash-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        try writeFile(file, megabytes: 192)
        let probe = try group.run(Built.executable("MemoryProbe"))
        // The group goes when nobody is in it any more.
        defer { withExtendedLifetime(group) { probe.end() } }
        let start = await probe.nextLine()
        probe.write("take \(group.room(upTo: 0.6))\n")
        probe.write("thrash \(file.path)\n")
        let pressed = await probe.nextLine() ?? ""
        #expect(pressed.hasPrefix("moderate") || pressed == "severe 0")
        #expect(group.room(upTo: 0.75) > 0, "it is not the use that tells")
        probe.write("take 1\n")
        var line = pressed as String?
        while let next = line, next != start { line = await probe.nextLine() }
        #expect(line == start)
    }

    /// A file of which nothing is in memory.
    private func writeFile(_ file: URL, megabytes: Int) throws {
        let descriptor = open(file.path, O_RDWR | O_CREAT, 0o600)
        defer { close(descriptor) }
        var bytes = [UInt64](repeating: 0, count: 1 << 17)
        for megabyte in 0..<megabytes {
            for index in bytes.indices { bytes[index] = UInt64(index &* megabyte) &* 0x9E37_79B9_7F4A_7C15 }
            #expect(write(descriptor, bytes, 1 << 20) == 1 << 20)
        }
        fsync(descriptor)
        posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED)
    }
}
