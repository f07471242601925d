import Foundation
import TestSupport

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
