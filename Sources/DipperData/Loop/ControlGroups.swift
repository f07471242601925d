import Foundation

/// The control groups that limit this process's memory: its own group and those around it.
///
/// The type supports both versions, also side by side: version 2 (Linux, Documentation/admin-guide/cgroup-v2.rst) and
/// the memory controller of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst). A group's limit applies to all
/// groups within it.
struct ControlGroups: Sendable, Equatable {
    enum Version: Sendable {
        case one, two
    }

    /// A control group and its folder.
    struct Group: Sendable, Equatable {
        let version: Version
        let folder: String

        /// The most memory the group may use, in bytes; `nil` for no limit. `memory.high` counts as a limit, because
        /// from there on the kernel reclaims memory, so that a program does not stay above it for long.
        var limit: Int? {
            switch version {
            case .two: [bytes("memory.max"), bytes("memory.high")].compactMap { $0 }.min()
            case .one: bytes("memory.limit_in_bytes")
            }
        }

        /// The memory in use that the kernel cannot reclaim without swap, in bytes. Pages of files do not count and, in
        /// version 2, neither do the kernel's own caches, such as that of folders. Version 1 does not report the size
        /// of these caches, so there they count as in use.
        var use: Int? {
            guard let all = bytes(version == .two ? "memory.current" : "memory.usage_in_bytes") else { return nil }
            let statistics = KernelText.read(folder + "/memory.stat") ?? ""
            let returnable =
                version == .two
                ? ["inactive_file", "active_file", "slab_reclaimable"] : ["total_inactive_file", "total_active_file"]
            return returnable.reduce(all) {
                max(0, $0 - min($0, KernelText.number($1, in: statistics) ?? 0))
            }
        }

        /// Returns the number of bytes in a file; `nil` for the largest numbers, which mean that there is no limit.
        private func bytes(_ name: String) -> Int? {
            KernelText.number(KernelText.read("\(folder)/\(name)")).flatMap { $0 < 1 << 60 ? $0 : nil }
        }
    }

    /// The groups of version 2, from the innermost to the outermost.
    var two: [Group] = []
    /// The groups of version 1, from the innermost to the outermost.
    var one: [Group] = []

    var all: [Group] { two + one }

    init() {}

    /// Finds the groups of this process.
    /// - Parameter root: the folder of `/proc` and `/sys`, for tests.
    init(root: String) {
        let unified =
            ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map { root + $0 }
            .first { Self.isThere($0 + "/cgroup.controllers") }
        for line in (KernelText.read(root + "/proc/self/cgroup") ?? "").split(separator: "\n") {
            // "0::/path" and "4:memory:/path"; a path may hold colons.
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            if parts[0] == "0", parts[1].isEmpty, let unified {
                two = Self.groups(.two, at: unified, String(parts[2]))
            } else if parts[1].split(separator: ",").contains("memory") {
                one = Self.groups(.one, at: root + "/sys/fs/cgroup/memory", String(parts[2]))
            }
        }
    }

    private static func groups(_ version: Version, at top: String, _ path: String) -> [Group] {
        // In a container the path may be the one outside of it, while the mount shows the container's own group.
        guard !path.split(separator: "/").contains(".."), path.utf8.count < 4096, isThere(top + path) else {
            return isThere(top) ? [Group(version: version, folder: top)] : []
        }
        var names = path.split(separator: "/")
        var groups: [Group] = []
        while true {
            groups.append(Group(version: version, folder: ([top] + names.map(String.init)).joined(separator: "/")))
            if names.popLast() == nil { return groups }
        }
    }

    private static func isThere(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// The lowest limit of all groups, in bytes.
    var limit: Int? { all.compactMap(\.limit).min() }

    /// Returns the largest share of a group's limit that is in use, from 0 to 1 and beyond; `nil` if there is no limit.
    /// - Parameter machine: the machine's memory in bytes; limits that are not below it are ignored.
    func use(limitsBelow machine: Int) -> Double? {
        all.compactMap { group in
            guard let limit = group.limit, limit > 0, limit < machine, let use = group.use else { return nil }
            return Double(use) / Double(limit)
        }.max()
    }

    /// The file in which the kernel reports how long tasks of the process's own group waited for memory; `nil` if the
    /// process is in no group of version 2 but the root, for which the machine's file reports this.
    var pressureFile: String? {
        // All groups but the kernel's root have `cgroup.events` (cgroup-v2.rst, "Core Interface Files").
        guard let own = two.first, Self.isThere(own.folder + "/cgroup.events") else { return nil }
        return own.folder + "/memory.pressure"
    }
}

/// The memory that this process may use.
enum MemoryLimit {
    /// The machine's memory in bytes, or the lowest limit of a control group if that is less.
    static var available: Int { available(root: "") }

    static func available(root: String, machine: UInt64 = ProcessInfo.processInfo.physicalMemory) -> Int {
        let machine = Int(clamping: machine)
        return min(machine, ControlGroups(root: root).limit ?? machine)
    }
}

/// The small files of `/proc` and `/sys`. Contents that do not have the expected form count as missing.
enum KernelText {
    /// The most bytes that are read: more than any of these files has.
    private static let limit = 64 << 10

    static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return read(descriptor)
    }

    /// Reads a file from its beginning. Reading it also makes `poll` wait for the next change.
    static func read(_ descriptor: Int32) -> String? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while bytes.count < limit {
            let count = pread(descriptor, &chunk, chunk.count, off_t(bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { break }
            bytes += chunk[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the number that a text holds; `nil` for `max` and for anything else that is not a number.
    static func number(_ text: String?) -> Int? {
        text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }.flatMap { $0 >= 0 ? $0 : nil }
    }

    /// Returns the number after a name that begins a line: `name 12` or `Name:  12 kB`.
    static func number(_ name: String, in text: String) -> Int? {
        for line in text.split(separator: "\n") {
            let parts = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == ":" })
            if parts.count >= 2, parts[0] == name { return number(String(parts[1])) }
        }
        return nil
    }
}
