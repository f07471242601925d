import Foundation
import TestSupport

@testable import DipperData

/// A control group of the test's own whose memory is limited, and one for the pressure within it where that is another.
final class MemoryGroup {
    static let limit = 160 << 20

    /// Whether this machine lets tests make them.
    static let isAllowed = (try? MemoryGroup()) != nil
    /// Whether it also tells of the pressure within them.
    static let hasPressure = (try? MemoryGroup())?.hasPressure == true

    struct Failed: Error {
        let what: String
    }

    let group: ControlGroups.Group
    private var folders: [String] = []

    init() throws {
        let groups = ControlGroups(root: "")
        let name = "dipper-\(UUID().uuidString)"
        let folder: String
        if let own = groups.one.first {
            folder = "\(own.folder)/\(name)"
            try Self.make(folder)
            group = ControlGroups.Group(version: .one, folder: folder)
            folders = [folder]
            try Self.write("\(Self.limit)", "\(folder)/memory.limit_in_bytes")
            // What is not there is not limited: the machine has no swap, or does not count it.
            try? Self.write("\(Self.limit)", "\(folder)/memory.memsw.limit_in_bytes")
            if let two = groups.two.last {
                let beside = "\(two.folder)/\(name)"
                if (try? Self.make(beside)) != nil { folders.append(beside) }
            }
        } else if let top = groups.two.last {
            folder = "\(top.folder)/\(name)"
            try Self.make(folder)
            group = ControlGroups.Group(version: .two, folder: folder)
            folders = [folder]
            try Self.write("\(Self.limit)", "\(folder)/memory.max")
            try? Self.write("0", "\(folder)/memory.swap.max")
        } else {
            throw Failed(what: "no control groups")
        }
    }

    deinit {
        for folder in folders { rmdir(folder) }
    }

    private static func make(_ folder: String) throws {
        guard mkdir(folder, 0o755) == 0 else { throw Failed(what: "mkdir \(folder): \(errno)") }
    }

    private static func write(_ text: String, _ path: String) throws {
        let file = open(path, O_WRONLY)
        guard file >= 0 else { throw Failed(what: "open \(path): \(errno)") }
        defer { close(file) }
        guard Foundation.write(file, text, text.utf8.count) > 0 else { throw Failed(what: "write \(path): \(errno)") }
    }

    var hasPressure: Bool { folders.contains { access("\($0)/memory.pressure", W_OK) == 0 } }

    /// Starts a program within.
    func run(_ program: URL) throws -> LineTool {
        let moves = folders.map { "echo $$ > \($0)/cgroup.procs" }
        return try LineTool(
            URL(fileURLWithPath: "/bin/sh"),
            ["-c", (moves + ["exec \"$0\""]).joined(separator: " && "), program.path])
    }

    /// How many megabytes are left up to a share of the limit.
    func room(upTo share: Double) -> Int { (Int(Double(Self.limit) * share) - (group.use ?? 0)) >> 20 }
}
