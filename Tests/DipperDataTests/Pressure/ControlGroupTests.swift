import Foundation
import TestSupport
import Testing

@testable import DipperData

/// Files of `/proc` and `/sys` that say what a test wants.
struct FakeKernel {
    private let folder = TemporaryFolder()
    var root: String { folder.url.path }

    /// - Parameter files: their texts by their paths.
    init(_ files: [String: String]) throws {
        try FileManager.default.createDirectory(at: folder.url, withIntermediateDirectories: true)
        for (path, text) in files { try write(text, path) }
    }

    func write(_ text: String, _ path: String) throws {
        let file = folder.url.appendingPathComponent(path)
        try FileManager.default.createDirectory(
            at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
        // Whole, as the kernel's files are to those who read them.
        try Data(text.utf8).write(to: file, options: .atomic)
    }
}

@Suite("The control groups that bound this process", .timeLimit(.minutes(5)))
struct ControlGroupTests {
    private static let gigabyte = 1 << 30
    private static let top = "sys/fs/cgroup"

    private func limit(_ files: [String: String]) throws -> Int {
        let kernel = try FakeKernel(files)
        return MemoryLimit.available(root: kernel.root, machine: UInt64(64 * Self.gigabyte))
    }

    @Test("without any, it is the machine's memory that bounds")
    func none() throws {
        #expect(try limit([:]) == 64 * Self.gigabyte)
        #expect(MemoryLimit.available(root: "/nowhere", machine: .max) == .max)
        #expect(MemoryLimit.available > 0)
    }

    @Test("of version 2 the tightest group holds, its own or one around it, by `memory.max` or `memory.high`")
    func versionTwo() throws {
        let base = [
            "proc/self/cgroup": "0::/a/b/c\n", "\(Self.top)/cgroup.controllers": "memory",
            "\(Self.top)/a/b/c/memory.max": "max\n", "\(Self.top)/a/b/c/memory.high": "max\n",
            "\(Self.top)/a/b/memory.max": "\(4 * Self.gigabyte)\n", "\(Self.top)/a/memory.max": "max\n",
        ]
        #expect(try limit(base) == 4 * Self.gigabyte)
        #expect(try limit(base.merging(["\(Self.top)/a/memory.high": "\(Self.gigabyte)\n"]) { $1 }) == Self.gigabyte)
        #expect(try limit(base.merging(["\(Self.top)/a/b/c/memory.max": "12345\n"]) { $1 }) == 12345)
    }

    @Test("of version 1 too, also beside a version 2 without the memory controller")
    func versionOne() throws {
        let base = [
            "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n",
            "\(Self.top)/unified/cgroup.controllers": "", "\(Self.top)/unified/cgroup.procs": "",
            "\(Self.top)/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "\(Self.top)/memory/a/memory.limit_in_bytes": "\(2 * Self.gigabyte)\n",
            "\(Self.top)/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        #expect(try limit(base) == 2 * Self.gigabyte)
        let kernel = try FakeKernel(base)
        let groups = ControlGroups(root: kernel.root)
        #expect(groups.two.count == 1 && groups.pressureFile == nil, "the root is the machine")
    }

    @Test("in a container, whose mount shows its own group at the top, that one holds")
    func container() throws {
        #expect(
            try limit([
                "proc/self/cgroup": "4:memory:/docker/0123\n",
                "\(Self.top)/memory/memory.limit_in_bytes": "\(Self.gigabyte)\n",
            ]) == Self.gigabyte)
        let two = try FakeKernel([
            "proc/self/cgroup": "0::/system.slice/docker-0123.scope\n", "\(Self.top)/cgroup.controllers": "memory",
            "\(Self.top)/cgroup.events": "populated 1\n", "\(Self.top)/memory.max": "\(Self.gigabyte)\n",
        ])
        #expect(MemoryLimit.available(root: two.root) == Self.gigabyte)
        #expect(ControlGroups(root: two.root).pressureFile == "\(two.root)/sys/fs/cgroup/memory.pressure")
    }

    @Test(
        "texts that are not as they should be bound nothing",
        arguments: [
            "", "max", "\n", "-1", "-9223372036854775808", "1e9", "99999999999999999999", "12x", "\0", "0x10",
        ])
    func hostile(text: String) throws {
        let kernel = try FakeKernel([
            "proc/self/cgroup": "0::/a\n4:memory:/a\n", "\(Self.top)/cgroup.controllers": "",
            "\(Self.top)/a/memory.max": text, "\(Self.top)/a/memory.high": text, "\(Self.top)/a/memory.current": text,
            "\(Self.top)/a/memory.stat": "inactive_file \(text)\nactive_file", "\(Self.top)/a/memory.events": text,
            "\(Self.top)/memory/a/memory.limit_in_bytes": text, "\(Self.top)/memory/a/memory.usage_in_bytes": text,
        ])
        let root = kernel.root
        #expect(MemoryLimit.available(root: root, machine: 4096) == 4096)
        #expect(
            MemoryUse(ControlGroups(root: root), memory: "MemTotal: \(text) kB\nMemAvailable: \(text)") == MemoryUse())
    }

    @Test(
        "lists of groups that are not as they should be name none",
        arguments: [
            "", "0", "0:", "0::", ":::", "0::/../../etc\n", "4:memory", "4:memory:/../..\n",
            "0::" + String(repeating: "/a", count: 9_000), "\0\0",
        ])
    func hostileList(text: String) throws {
        let kernel = try FakeKernel([
            "proc/self/cgroup": text, "\(Self.top)/cgroup.controllers": "", "\(Self.top)/memory/tasks": "",
        ])
        let groups = ControlGroups(root: kernel.root)
        #expect(groups.all.allSatisfy { $0.folder.hasSuffix("/sys/fs/cgroup") || $0.folder.hasSuffix("/memory") })
        #expect(groups.limit == nil && groups.use(limitsBelow: .max) == nil)
    }

    @Test("the kernel's caches that it can take back do not count as used where it tells of them")
    func slabs() throws {
        let statistics = "slab_reclaimable 300\nslab_unreclaimable 400\nslab 700\ninactive_file 100\n"
        let two = try FakeKernel([
            "proc/self/cgroup": "0::/a\n", "\(Self.top)/cgroup.controllers": "memory",
            "\(Self.top)/a/memory.max": "1000", "\(Self.top)/a/memory.current": "900",
            "\(Self.top)/a/memory.stat": statistics,
        ])
        #expect(ControlGroups(root: two.root).use(limitsBelow: .max) == 0.5)
        let one = try FakeKernel([
            "proc/self/cgroup": "4:memory:/a\n", "\(Self.top)/memory/a/memory.limit_in_bytes": "1000",
            "\(Self.top)/memory/a/memory.usage_in_bytes": "900",
            "\(Self.top)/memory/a/memory.stat": statistics + "total_inactive_file 200\ntotal_active_file 100\n",
        ])
        #expect(ControlGroups(root: one.root).use(limitsBelow: .max) == 0.6)
    }

    @Test("pages of files do not count as used, and the fullest group does")
    func use() throws {
        let kernel = try FakeKernel([
            "proc/self/cgroup": "0::/a/b\n", "\(Self.top)/cgroup.controllers": "memory",
            "\(Self.top)/a/b/memory.max": "1000", "\(Self.top)/a/b/memory.current": "900",
            "\(Self.top)/a/b/memory.stat": "anon 100\ninactive_file 300\nactive_file 200\n",
            "\(Self.top)/a/memory.high": "2000", "\(Self.top)/a/memory.max": "max",
            "\(Self.top)/a/memory.current": "1500", "\(Self.top)/a/memory.stat": "",
        ])
        let groups = ControlGroups(root: kernel.root)
        #expect(groups.use(limitsBelow: .max) == 0.75)
        #expect(groups.use(limitsBelow: 1500) == 0.4, "a limit above what the machine has is none")
        try kernel.write("inactive_file 99999", "\(Self.top)/a/memory.stat")
        #expect(groups.use(limitsBelow: .max) == 0.4)
        let use = MemoryUse(groups, memory: "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n")
        #expect(use == MemoryUse(group: 0.4, machine: 0.75))
    }
}
