import CMnl
import Foundation
import ProcessShims

/// The kernel's sources on memory pressure: descriptors to wait for, and files to read regularly where there is no
/// descriptor.
///
/// - Pressure files of the process's group and of the machine (Documentation/accounting/psi.rst). They wake a thread
///   that has written a trigger into them. Where a trigger is not allowed, their times are read every few seconds.
/// - `memory.events` of version 2 (Documentation/admin-guide/cgroup-v2.rst), of the process's group and the groups
///   around it. It changes when a limit is reached.
/// - `memory.pressure_level` of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst, section 11). It requires
///   permission to write to `cgroup.event_control`.
///
/// One thread uses this object at a time.
final class PressureSources {
    private enum Kind {
        case trigger(PressureSign)
        case events(isOwn: Bool, kills: Int)
        case counter(PressureSign)
    }

    private struct Source {
        let descriptor: Int32
        let kind: Kind
    }

    private struct Times {
        let path: String
        let ofMachine: Bool
        var latest: StallTimes
    }

    let groups: ControlGroups
    private var sources: [Source] = []
    /// Descriptors of sources that report nothing more. Closing one may be slow.
    private var spent: [Int32] = []
    private var times: [Times] = []
    private let timing: PressureTiming
    private var looked: Duration

    /// - Parameter root: the folder of `/proc` and `/sys`, for tests.
    init(root: String, _ timing: PressureTiming, now: Duration) {
        self.timing = timing
        looked = now
        groups = ControlGroups(root: root)
        if let own = groups.pressureFile { listen(to: own, ofMachine: false) }
        listen(to: root + "/proc/pressure/memory", ofMachine: true)
        for (index, group) in groups.two.enumerated() { listenToEvents(of: group, isOwn: index == 0) }
        listenToLevels(of: groups.one)
    }

    deinit {
        for descriptor in spent + sources.map(\.descriptor) { close(descriptor) }
    }

    var isDeaf: Bool { sources.isEmpty && period == nil }
    /// The interval at which to look without a wake-up; `nil` for never. A group with a limit is looked at regularly,
    /// because the kernel reports only that the limit is reached, which is late.
    var period: Duration? { times.isEmpty && groups.limit == nil ? nil : timing.period }

    struct Watched {
        let descriptor: Int32
        let events: UInt32
        /// Whether it is not waited for while nothing is to be done: its signs come in any number.
        let rests: Bool
    }

    var watched: [Watched] {
        sources.map { source in
            switch source.kind {
            case .trigger: Watched(descriptor: source.descriptor, events: EPOLLPRI.rawValue, rests: false)
            case .events: Watched(descriptor: source.descriptor, events: EPOLLPRI.rawValue, rests: true)
            case .counter: Watched(descriptor: source.descriptor, events: EPOLLIN.rawValue, rests: true)
            }
        }
    }

    // MARK: Opening sources

    private func listen(to path: String, ofMachine: Bool) {
        let isWoken =
            set(.moderate, path, ofMachine ? .machineStalled : .stalled)
            && set(.severe, path, ofMachine ? .machineBlocked : .blocked)
        if !isWoken, let text = KernelText.read(path), let latest = StallTimes(text) {
            times.append(Times(path: path, ofMachine: ofMachine, latest: latest))
        }
    }

    private func set(_ trigger: StallTrigger, _ path: String, _ sign: PressureSign) -> Bool {
        let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        // The text is written with its terminating zero.
        let text = Array(trigger.text.utf8CString)
        guard Self.isOfKernel(descriptor),
            text.withUnsafeBytes({ write(descriptor, $0.baseAddress, $0.count) }) == text.count
        else {
            close(descriptor)
            return false
        }
        sources.append(Source(descriptor: descriptor, kind: .trigger(sign)))
        return true
    }

    private func listenToEvents(of group: ControlGroups.Group, isOwn: Bool) {
        let descriptor = open(group.folder + "/memory.events", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        guard Self.isOfKernel(descriptor), let text = KernelText.read(descriptor) else {
            close(descriptor)
            return
        }
        sources.append(Source(descriptor: descriptor, kind: .events(isOwn: isOwn, kills: Self.kills(text))))
    }

    private func listenToLevels(of groups: [ControlGroups.Group]) {
        for (level, sign) in [("medium", PressureSign.pressed), ("critical", .critical)] where !groups.isEmpty {
            let counter = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
            guard counter >= 0 else { continue }
            // "local": pressure of groups within this one does not concern this process.
            if groups.filter({ Self.register(counter, "\(level),local", $0) }).isEmpty {
                close(counter)
            } else {
                sources.append(Source(descriptor: counter, kind: .counter(sign)))
            }
        }
    }

    private static func register(_ counter: Int32, _ level: String, _ group: ControlGroups.Group) -> Bool {
        let file = open(group.folder + "/memory.pressure_level", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return false }
        defer { close(file) }
        let control = open(group.folder + "/cgroup.event_control", O_WRONLY | O_CLOEXEC)
        guard control >= 0 else { return false }
        defer { close(control) }
        let text = Array("\(counter) \(file) \(level)".utf8CString)
        return isOfKernel(control) && text.withUnsafeBytes { write(control, $0.baseAddress, $0.count) } == text.count
    }

    /// Files that the kernel makes as they are read have no size.
    private static func isOfKernel(_ descriptor: Int32) -> Bool {
        var status = stat()
        return fstat(descriptor, &status) == 0 && status.st_size == 0
    }

    private static func kills(_ text: String) -> Int {
        ["oom", "oom_kill"].reduce(0) { $0.addingReportingOverflow(KernelText.number($1, in: text) ?? 0).partialValue }
    }

    // MARK: Signs

    func sign(of descriptor: Int32, _ events: UInt32) -> PressureSign? {
        guard let index = sources.firstIndex(where: { $0.descriptor == descriptor }) else { return nil }
        let sign = hear(index, events)
        if sign == nil { spent.append(sources.remove(at: index).descriptor) }
        return sign
    }

    private func hear(_ index: Int, _ found: UInt32) -> PressureSign? {
        let source = sources[index]
        switch source.kind {
        case .trigger(let sign):
            // An error means that the group has been removed.
            return found & EPOLLERR.rawValue == 0 ? sign : nil
        case .events(let isOwn, let before):
            guard let text = KernelText.read(source.descriptor) else { return nil }
            let kills = Self.kills(text)
            sources[index] = Source(descriptor: source.descriptor, kind: .events(isOwn: isOwn, kills: kills))
            // The events of an outer group include those of all groups within it, so only those of the own group count.
            return isOwn && kills > before ? .outOfMemory : .looked
        case .counter(let sign):
            var count: eventfd_t = 0
            return eventfd_read(source.descriptor, &count) == 0 ? sign : nil
        }
    }

    func signsOfTimes(at now: Duration) -> [PressureSign] {
        guard !times.isEmpty, now - looked >= timing.period / 2 else { return [] }
        defer { looked = now }
        var signs: [PressureSign] = []
        for index in times.indices {
            guard let text = KernelText.read(times[index].path), let latest = StallTimes(text) else { continue }
            let before = times[index].latest
            times[index].latest = latest
            if let sign = latest.sign(since: before, over: now - looked, ofMachine: times[index].ofMachine) {
                signs.append(sign)
            }
        }
        return signs
    }
}

/// The control groups that limit this process's memory: its own group and those around it, whose limits apply to all
/// groups within them.
///
/// Both versions are supported, also side by side: version 2 (Linux, Documentation/admin-guide/cgroup-v2.rst) and the
/// memory controller of version 1 (Documentation/admin-guide/cgroup-v1/memory.rst).
struct ControlGroups: Sendable, Equatable {
    enum Version: Sendable {
        case one, two
    }

    struct Group: Sendable, Equatable {
        let version: Version
        let folder: String

        /// In bytes; `nil` for no limit. `memory.high` counts as a limit, because from there on the kernel reclaims
        /// memory, so that a program does not stay above it for long.
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

        private func bytes(_ name: String) -> Int? {
            KernelText.number(KernelText.read("\(folder)/\(name)")).flatMap { $0 < 1 << 60 ? $0 : nil }
        }
    }

    // The groups of each version, from the innermost to the outermost.
    var two: [Group] = []
    var one: [Group] = []

    var all: [Group] { two + one }

    init() {}

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

    var limit: Int? { all.compactMap(\.limit).min() }

    /// The largest share of a group's limit that is in use, from 0 to 1 and beyond; `nil` if there is no limit.
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
    /// More bytes than any of these files has.
    private static let limit = 64 << 10

    static func read(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        return read(descriptor)
    }

    /// Reading from the beginning also makes `poll` wait for the next change.
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

    /// `nil` for `max` and for anything else that is not a number.
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
