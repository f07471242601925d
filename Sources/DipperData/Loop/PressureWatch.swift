import Foundation
import ProcessShims
import Synchronization

/// An observer of a monitor, with descriptors of its own.
@Loop
final class PressureWatch: LoopClient {
    /// Changed on the monitor's queue.
    private struct Knowledge {
        var state: PressureState
        var opened: PressureSources?
    }

    let onChange: @Sendable () -> Void
    private let monitor: KernelMemoryPressure
    private nonisolated let rank = Atomic(MemoryPressure.normal.rank)
    private nonisolated let knowledge: Mutex<Knowledge>
    private var sources: PressureSources?
    private var seat: LoopSeat?
    private var signs: Set<PressureSign> = []
    private var isLooking = false
    private var restsUntil = ContinuousClock.now
    private var nextLook: ContinuousClock.Instant? = .now

    nonisolated init(_ monitor: KernelMemoryPressure, _ onChange: @escaping @Sendable () -> Void) {
        (self.monitor, self.onChange) = (monitor, onChange)
        knowledge = Mutex(Knowledge(state: PressureState(monitor.timing)))
    }

    nonisolated var level: MemoryPressure { MemoryPressure.allCases[rank.load(ordering: .relaxed)] }

    /// On the monitor's queue: the kernel takes 15 ms to close a file.
    nonisolated func open() {
        monitor.calls.async { [self] in
            let sources = PressureSources()
            if sources.isDeaf { return monitor.isDeaf() }
            knowledge.withLock { $0.opened = sources }
            Loop.post { self.begin(sources) }
        }
    }

    private func begin(_ sources: PressureSources) {
        self.sources = sources
        let seat = Loop.add(self)
        // Edge-triggered: a changed file stays ready until it is read.
        let events = EPOLLPRI.rawValue | EPOLLET.rawValue
        for descriptor in sources.signs.keys { seat.watch(descriptor, for: events, insteadOf: 0) }
        self.seat = seat
        seat.wake()
    }

    /// On the monitor's queue as well, and so after ``open()``.
    nonisolated func end() {
        monitor.calls.async { [self] in
            Loop.post { [self] in
                seat?.leave()
                (seat, sources) = (nil, nil)
                monitor.calls.async { [self] in close() }
            }
            if level != .normal { monitor.changed() }
        }
    }

    /// The kernel takes closed files out of the loop's epoll.
    private nonisolated func close() { knowledge.withLock { exchange(&$0.opened, with: nil) }?.closeFiles() }

    func ready(_ descriptor: Int32, _ events: UInt32) {
        guard let sign = sources?.signs[descriptor] else { return }
        // A file of events reports each change as an error; a pressure file does so when its group has been removed.
        if sign == .change || events & EPOLLERR.rawValue == 0 { signs.insert(sign) }
    }

    func turn() -> ContinuousClock.Instant? {
        guard let sources, !isLooking, let due = signs.isEmpty ? nextLook : restsUntil else { return nil }
        let (next, now) = (max(due, restsUntil), ContinuousClock.now)
        guard next <= now else { return next }
        isLooking = true
        // Elsewhere, because reading may be slow when memory is short.
        monitor.calls.async { [self, found = exchange(&signs, with: [])] in look(found, sources, at: now) }
        return nil
    }

    private nonisolated func look(
        _ found: Set<PressureSign>, _ sources: PressureSources, at moment: ContinuousClock.Instant
    ) {
        let reading = sources.read(at: moment)
        let state = knowledge.withLock { knowledge in
            knowledge.state.apply(found, reading)
            return knowledge.state
        }
        // The kernel reports a limit only once it is reached.
        let isRegular = reading.groupUse != nil || !sources.polled.isEmpty
        Loop.post { [self, due = state.due, timing = monitor.timing] in
            isLooking = false
            restsUntil = .now + timing.spacing
            nextLook = [due, isRegular ? ContinuousClock.now + timing.period : nil].compactMap { $0 }.min()
            seat?.wake()
        }
        if rank.exchange(state.level.rank, ordering: .relaxed) != state.level.rank { monitor.changed() }
    }
}

package struct PressureTiming: Sendable {
    /// How long a level lasts after its last sign.
    package var calm: Duration
    /// The interval at which files are read that wake no thread.
    package var period: Duration
    package var spacing: Duration

    package init(
        calm: Duration = .seconds(10), period: Duration = .seconds(5), spacing: Duration = .milliseconds(500)
    ) {
        (self.calm, self.period, self.spacing) = (calm, period, spacing)
    }
}

/// The kernel's files on memory pressure: descriptors to wait for, and files to read regularly.
///
/// - Pressure files of the process's group and of the machine (Documentation/accounting/psi.rst) wake a thread that has
///   written a trigger into them. Where a trigger is not allowed, they are read regularly.
/// - `memory.events` of version 2 (Documentation/admin-guide/cgroup-v2.rst) changes when a limit is reached.
struct PressureSources: Sendable {
    private let groups = ControlGroups()
    /// The meaning of each descriptor's events.
    private(set) var signs: [Int32: PressureSign] = [:]
    /// The files to read, by the sign that each may give.
    private(set) var polled: [PressureSign: String] = [:]

    init() {
        for group in groups.two {
            let descriptor = open(group.folder + "/memory.events", O_RDONLY | O_CLOEXEC)
            if descriptor >= 0 { signs[descriptor] = .change }
        }
        let files: [(path: String?, ofMachine: Bool)] = [(groups.pressureFile, false), ("/proc/pressure/memory", true)]
        for case let (path?, ofMachine) in files {
            for sign in PressureSign.stalls(ofMachine: ofMachine) {
                if let descriptor = Self.set(sign.trigger, in: path) {
                    signs[descriptor] = sign
                } else if KernelText.read(path) != nil {
                    polled[sign] = path
                }
            }
        }
    }

    private static func set(_ trigger: String, in path: String) -> Int32? {
        let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        // With its terminating zero.
        let text = Array(trigger.utf8CString)
        if write(descriptor, text, text.count) == text.count { return descriptor }
        close(descriptor)
        return nil
    }

    func closeFiles() {
        for descriptor in signs.keys { close(descriptor) }
    }

    var isDeaf: Bool { signs.isEmpty && polled.isEmpty && groups.limit == nil }

    func read(at moment: ContinuousClock.Instant) -> PressureReading {
        var reading = PressureReading(moment: moment)
        let memory = KernelText.read("/proc/meminfo") ?? ""
        // In kilobytes.
        let total = KernelText.number("MemTotal", in: memory).flatMap { (1..<(1 << 50)).contains($0) ? $0 : nil }
        reading.groupUse = groups.use(limitsBelow: total.map { $0 << 10 } ?? .max)
        if let total, let available = KernelText.number("MemAvailable", in: memory) {
            reading.machineUse = 1 - Double(min(available, total)) / Double(total)
        }
        // The events of an outer group include those of the groups within it.
        if let own = groups.two.first, let text = KernelText.read(own.folder + "/memory.events") {
            reading.kills = ["oom", "oom_kill"].reduce(0) { $0 &+ (KernelText.number($1, in: text) ?? 0) }
        }
        for (sign, path) in polled {
            // As in "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234".
            let line = KernelText.read(path)?.split(separator: "\n").first { $0.hasPrefix("\(sign.kind) ") }
            let time = line?.split(separator: "=").last.flatMap { Int64($0) }
            reading.stalls[sign] = time.map { .microseconds($0) }
        }
        return reading
    }
}

/// Tasks have waited for memory for a share of the time.
struct PressureSign: Sendable, Hashable {
    /// The first word of its line in a pressure file.
    let kind: String
    let share: Double
    let level: MemoryPressure
    /// Whether it concerns the whole machine, whose tasks may stall because their groups have limits.
    let ofMachine: Bool

    /// The memory in use may have changed.
    static let change = PressureSign(kind: "", share: 0, level: .normal, ofMachine: false)

    static func stalls(ofMachine: Bool) -> [PressureSign] {
        [
            // systemd uses this share for its services as well.
            PressureSign(kind: "some", share: 0.1, level: .moderate, ofMachine: ofMachine),
            PressureSign(kind: "full", share: 0.2, level: .severe, ofMachine: ofMachine),
        ]
    }

    /// In microseconds. Only multiples of two seconds need no privilege.
    private static let window = 2_000_000

    var trigger: String { "\(kind) \(Int(share * Double(Self.window))) \(Self.window)" }
}

struct PressureReading: Sendable {
    let moment: ContinuousClock.Instant
    /// The largest used share of a control group's limit; `nil` for no limit.
    var groupUse: Double?
    /// The used share of the machine's memory; `nil` if unknown.
    var machineUse: Double?
    /// How often the process's group has run out of memory; `nil` if unknown.
    var kills: Int?
    /// The time that tasks have waited for memory, from files without a trigger, by the sign that it may cause.
    var stalls: [PressureSign: Duration] = [:]

    func signs(since earlier: PressureReading, least: Duration) -> [PressureSign] {
        let span = max(moment - earlier.moment, least)
        return stalls.filter { sign, now in earlier.stalls[sign].map { (now - $0) / span >= sign.share } ?? false }
            .map(\.key)
    }
}

/// The level of memory pressure, from signs and the memory in use.
///
/// A sign raises the level at once. Some seconds after its last sign a level falls by one step. The level falls at
/// lower shares than it rises, so that it does not change with every picture.
struct PressureState: Sendable {
    /// Shares of a group's limit at which the level rises to `moderate` and falls again.
    private static let moderateUse = (rise: 0.85, fall: 0.75)
    private static let severeUse = (rise: 0.95, fall: 0.90)
    /// At a smaller share of the machine's memory, tasks stall because of their groups' limits.
    private static let shortMachine = 0.8

    private let timing: PressureTiming
    private(set) var level = MemoryPressure.normal
    private(set) var due: ContinuousClock.Instant?
    private var base: PressureReading?
    private var kills: Int?

    init(_ timing: PressureTiming) {
        self.timing = timing
    }

    mutating func apply(_ found: Set<PressureSign>, _ reading: PressureReading) {
        let (base, least) = (base ?? reading, timing.period / 2)
        if self.base == nil || reading.moment - base.moment >= least { self.base = reading }
        let isMachineShort = (reading.machineUse ?? 1) >= Self.shortMachine
        let signs = found.union(reading.signs(since: base, least: least)).filter { !$0.ofMachine || isMachineShort }
        var seen = max(signs.map(\.level).max() ?? .normal, Self.level(of: reading.groupUse, during: level))
        if let new = reading.kills {
            if let old = kills, new > old { seen = .severe }
            kills = new
        }
        if seen >= level {
            level = seen
        } else if let due, reading.moment >= due {
            // By one step: the freed memory may be needed again at once.
            level = max(seen, level == .severe ? .moderate : .normal)
        } else {
            return
        }
        due = level == .normal ? nil : reading.moment + timing.calm
    }

    private static func level(of use: Double?, during level: MemoryPressure) -> MemoryPressure {
        guard let use else { return .normal }
        if use >= (level == .severe ? severeUse.fall : severeUse.rise) { return .severe }
        return use >= (level == .normal ? moderateUse.rise : moderateUse.fall) ? .moderate : .normal
    }
}
