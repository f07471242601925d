import TestSupport
import Testing

@testable import DipperData

@Suite("The memory that a process may use, by the control groups that bound it", .timeLimit(.minutes(2)))
struct MemoryLimitTests {
    private static let gigabyte = 1 << 30
    private static let two = "sys/fs/cgroup", one = "sys/fs/cgroup/memory"

    /// - Parameter files: the texts of files of `/proc` and `/sys` by their paths.
    private func limit(_ files: [String: String]) throws -> Int {
        let folder = TemporaryFolder()
        for (path, text) in files { try folder.place(text, at: path) }
        return MemoryLimit.available(root: folder.path, machine: UInt64(64 * Self.gigabyte))
    }

    @Test("the tightest group holds: of version 2 or 1, its own or one around it; in a container, the one at the top")
    func groups() throws {
        let (two, one, gigabyte) = (Self.two, Self.one, Self.gigabyte)
        let inTwo = [
            "proc/self/cgroup": "0::/a/b/c\n", "\(two)/cgroup.controllers": "memory",
            "\(two)/a/b/c/memory.max": "max\n",
            "\(two)/a/b/c/memory.high": "max\n", "\(two)/a/b/memory.max": "\(4 * gigabyte)\n",
        ]
        let inOne = [
            "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n",
            "\(two)/unified/cgroup.controllers": "", "\(two)/unified/cgroup.procs": "",
            "\(one)/memory.limit_in_bytes": "9223372036854771712\n",
            "\(one)/a/memory.limit_in_bytes": "\(2 * gigabyte)\n",
            "\(one)/a/b/memory.limit_in_bytes": "9223372036854771712\n",
        ]
        let rows: [([String: String], Int)] = [
            ([:], 64 * gigabyte), (inTwo, 4 * gigabyte), (inOne, 2 * gigabyte),
            (inTwo.merging(["\(two)/a/memory.high": "\(gigabyte)\n"]) { $1 }, gigabyte),
            (inTwo.merging(["\(two)/a/b/c/memory.max": "12345\n"]) { $1 }, 12345),
            (
                ["proc/self/cgroup": "4:memory:/docker/0123\n", "\(one)/memory.limit_in_bytes": "\(gigabyte)\n"],
                gigabyte
            ),
            (
                [
                    "proc/self/cgroup": "0::/system.slice/docker-0123.scope\n", "\(two)/cgroup.controllers": "memory",
                    "\(two)/cgroup.events": "populated 1\n", "\(two)/memory.max": "\(gigabyte)\n",
                ], gigabyte
            ),
        ]
        for (files, expected) in rows { #expect(try limit(files) == expected, "\(files)") }
        #expect(MemoryLimit.available() > 0)
    }

    @Test("texts that are not as they should be bound nothing")
    func hostile() throws {
        for text in ["", "max", "\n", "-1", "-9223372036854775808", "1e9", "99999999999999999999", "12x", "\0", "0x10"]
        {
            let files = [
                "proc/self/cgroup": "0::/a\n4:memory:/a\n", "\(Self.two)/cgroup.controllers": "",
                "\(Self.two)/a/memory.max": text, "\(Self.two)/a/memory.high": text,
                "\(Self.one)/a/memory.limit_in_bytes": text,
            ]
            #expect(try limit(files) == 64 * Self.gigabyte, "\(text)")
        }
        for list in ["", "0", "0:", "0::", ":::", "0::/../../etc\n", "4:memory", "4:memory:/../..\n", "\0\0"] {
            let files = ["proc/self/cgroup": list, "\(Self.two)/cgroup.controllers": "", "\(Self.one)/tasks": ""]
            #expect(try limit(files) == 64 * Self.gigabyte, "\(list)")
        }
    }
}

@Suite("The level of memory pressure follows what the kernel's files say", .timeLimit(.minutes(1)))
struct PressureStateTests {
    @Test("a kill raises the level once, also after a reading without a count; the level falls by steps")
    func kills() {
        let start = ContinuousClock.now
        var state = PressureState(PressureTiming())
        let readings: [(seconds: Int, kills: Int?, MemoryPressure)] = [
            (0, 3, .normal), (1, nil, .normal), (2, 3, .normal), (3, 4, .severe), (8, 4, .severe), (14, 4, .moderate),
            (25, 4, .normal),
        ]
        for (seconds, kills, level) in readings {
            var reading = PressureReading(moment: start + .seconds(seconds))
            reading.kills = kills
            state.apply([], reading)
            #expect(state.level == level, "after \(seconds) s")
        }
    }
}
