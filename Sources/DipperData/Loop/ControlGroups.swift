import Foundation

/// The control groups that limit this process's memory: its group and those around it. Supports version 2 (Linux,
/// Documentation/admin-guide/cgroup-v2.rst) and version 1 (Documentation/admin-guide/cgroup-v1/memory.rst), side by
/// side.
struct ControlGroups: Sendable {
    struct Version: Sendable {
        let limits: [String]
        let use: String
        /// The lines of `memory.stat` with memory that the kernel can reclaim without swap.
        let reclaimable: [String]

        /// `memory.high` counts as a limit, because the kernel reclaims memory from there on.
        static let two = Version(
            limits: ["memory.max", "memory.high"], use: "memory.current",
            reclaimable: ["inactive_file", "active_file", "slab_reclaimable"])
        /// Does not report the size of the kernel's caches, such as that of folders, so they count as in use.
        static let one = Version(
            limits: ["memory.limit_in_bytes"], use: "memory.usage_in_bytes",
            reclaimable: ["total_inactive_file", "total_active_file"])
    }

    struct Group: Sendable {
        let version: Version
        let folder: String

        var limit: Int? { version.limits.compactMap(bytes).min() }

        var use: Int? {
            guard let all = bytes(version.use) else { return nil }
            let statistics = KernelText.read(folder + "/memory.stat") ?? ""
            return version.reclaimable.reduce(all) { max(0, $0 - min($0, KernelText.number($1, in: statistics) ?? 0)) }
        }

        private func bytes(_ name: String) -> Int? {
            KernelText.number(KernelText.read("\(folder)/\(name)")).flatMap { $0 < 1 << 60 ? $0 : nil }
        }
    }

    private(set) var two: [Group] = []
    private var one: [Group] = []

    private var all: [Group] { two + one }

    init(root: String = "") {
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
        // In a container, the path may be that outside, while the mount shows the container's group.
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

    var limit: Int? { all.compactMap(\.limit).min() }

    /// The largest used share of a group's limit, from 0 to 1 and beyond; `nil` for no limit.
    /// - Parameter machine: the machine's memory in bytes; higher limits are ignored.
    func use(limitsBelow machine: Int) -> Double? {
        all.compactMap { group in
            guard let limit = group.limit, limit > 0, limit < machine, let use = group.use else { return nil }
            return Double(use) / Double(limit)
        }.max()
    }

    /// The file of the time that the process's group waited for memory; `nil` for the root, for which the machine's
    /// does.
    var pressureFile: String? {
        // All groups but the kernel's root have `cgroup.events` (cgroup-v2.rst, "Core Interface Files").
        guard let own = two.first, Self.isThere(own.folder + "/cgroup.events") else { return nil }
        return own.folder + "/memory.pressure"
    }
}

enum MemoryLimit {
    /// In bytes: the machine's memory, or the lowest limit of a control group.
    static func available(root: String = "", machine: UInt64 = ProcessInfo.processInfo.physicalMemory) -> Int {
        let machine = Int(clamping: machine)
        return min(machine, ControlGroups(root: root).limit ?? machine)
    }
}

/// The small files of `/proc` and `/sys`, whose numbers are read here alone. Malformed contents count as missing.
enum KernelText {
    static func read(_ path: String) -> String? {
        // Control groups may have any bytes in their names.
        (try? Data(contentsOf: URL(fileURLWithPath: path))).map { String(decoding: $0, as: UTF8.self) }
    }

    /// `nil` for `max` and other text that is no number.
    static func number(_ text: String?) -> Int? {
        text.flatMap { Int($0.trimmingCharacters(in: .whitespacesAndNewlines)) }.flatMap { $0 >= 0 ? $0 : nil }
    }

    /// The number after a name that begins a line: `name 12` or `Name:  12 kB`.
    static func number(_ name: String, in text: String) -> Int? {
        for line in text.split(separator: "\n") {
            let parts = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == ":" })
            if parts.count >= 2, parts[0] == name { return number(String(parts[1])) }
        }
        return nil
    }
}
