import Foundation

/// The control groups that bound this process's memory: its own, and those around it.
///
/// Both versions are known: version 2 (Linux, Documentation/admin-guide/cgroup-v2.rst) and the memory controller of
/// version 1 (Documentation/admin-guide/cgroup-v1/memory.rst), also side by side. A group's limit bounds all within it.
struct ControlGroups: Sendable, Equatable {
    enum Version: Sendable {
        case one, two
    }

    /// A group's folder.
    struct Group: Sendable, Equatable {
        let version: Version
        let folder: String

        /// The most the group may hold, in bytes; `nil` for no limit. The kernel begins to take memory back at
        /// `memory.high`, so that a program never has more than that for long.
        var limit: Int? {
            switch version {
            case .two: [bytes("memory.max"), bytes("memory.high")].compactMap { $0 }.min()
            case .one: bytes("memory.limit_in_bytes")
            }
        }

        /// What it holds that the kernel cannot take back without a swap, in bytes: all but the pages of files, and of
        /// version 2 all but the kernel's own caches, such as those of folders. Version 1 does not tell how large these
        /// are; there they count as in use.
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

        /// A number of bytes; the largest ones mean that there is no limit.
        private func bytes(_ name: String) -> Int? {
            KernelText.number(KernelText.read("\(folder)/\(name)")).flatMap { $0 < 1 << 60 ? $0 : nil }
        }
    }

    /// From the innermost to the outermost.
    var two: [Group] = []
    /// The same for version 1.
    var one: [Group] = []

    var all: [Group] { two + one }

    init() {}

    /// - Parameter root: where `/proc` and `/sys` are; for tests.
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
        // In a container the path may be that outside of it, while the mount shows the container's own group.
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

    /// The tightest limit of all, in bytes.
    var limit: Int? { all.compactMap(\.limit).min() }

    /// The largest share of a limit that is in use, from 0 to 1 and beyond; `nil` where nothing is limited.
    func use(limitsBelow machine: Int) -> Double? {
        all.compactMap { group in
            guard let limit = group.limit, limit > 0, limit < machine, let use = group.use else { return nil }
            return Double(use) / Double(limit)
        }.max()
    }

    /// Where the kernel tells how long the tasks of the process's own group waited for memory; `nil` if it is in none,
    /// for then that is what the machine tells.
    var pressureFile: String? {
        // Only groups that are not the kernel's root have it (cgroup-v2.rst, "Core Interface Files").
        guard let own = two.first, Self.isThere(own.folder + "/cgroup.events") else { return nil }
        return own.folder + "/memory.pressure"
    }
}
