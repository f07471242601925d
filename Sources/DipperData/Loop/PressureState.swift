/// The level of memory pressure, made from signs and times: a value without a clock.
///
/// A sign raises the level at once. A level lasts for some seconds after its last sign, then falls by one step, so that
/// it takes two steps from `severe` to `normal`. While much of a limit is in use the level stays: the shares at which
/// it falls are a little below those that raise it, so that it does not change with every picture.
struct PressureState: Equatable, Sendable {
    let calm: Duration
    /// Shares of a group's limit that raise the level to `moderate`, and below which it falls again.
    static let moderateUse = (rise: 0.85, fall: 0.75)
    /// Shares of a group's limit that raise the level to `severe`, and below which it falls again.
    static let severeUse = (rise: 0.95, fall: 0.90)
    /// With a smaller share of the machine's memory in use, its tasks stall because of the limits of their groups.
    static let shortMachine = 0.8

    private(set) var level = MemoryPressure.normal
    private(set) var due: Duration?

    init(calm: Duration) {
        self.calm = calm
    }

    /// - Parameter now: the time on any clock that does not go back.
    mutating func apply(_ sign: PressureSign, _ use: MemoryUse, at now: Duration) {
        let seen = max(Self.level(of: sign, use), Self.level(of: use, during: level))
        if seen >= level {
            level = seen
        } else if let due, now >= due {
            // By one step only: the memory that was just freed may be needed again at once.
            level = max(seen, level == .severe ? .moderate : .normal)
        } else {
            return
        }
        due = level == .normal ? nil : now + calm
    }

    private static func level(of sign: PressureSign, _ use: MemoryUse) -> MemoryPressure {
        let isMachineShort = use.machine.map { $0 >= shortMachine } ?? true
        return switch sign {
        case .stalled, .pressed: .moderate
        case .blocked, .critical, .outOfMemory: .severe
        case .machineStalled: isMachineShort ? .moderate : .normal
        case .machineBlocked: isMachineShort ? .severe : .normal
        case .looked: .normal
        }
    }

    private static func level(of use: MemoryUse, during level: MemoryPressure) -> MemoryPressure {
        guard let share = use.group else { return .normal }
        if share >= (level == .severe ? severeUse.fall : severeUse.rise) { return .severe }
        return share >= (level == .normal ? moderateUse.rise : moderateUse.fall) ? .moderate : .normal
    }
}

/// The times that a monitor of memory pressure uses.
package struct PressureTiming: Sendable {
    /// How long a level lasts after its last sign.
    package var calm: Duration
    /// The interval at which files are read that do not wake the thread.
    package var period: Duration
    /// The shortest time between two looks.
    package var spacing: Duration

    package init(calm: Duration, period: Duration, spacing: Duration) {
        self.calm = calm
        self.period = period
        self.spacing = spacing
    }

    package static let standard = PressureTiming(
        calm: .seconds(10), period: .seconds(5), spacing: .milliseconds(500))
}

enum PressureSign: Equatable, Sendable {
    /// Some tasks of the process's group waited for memory.
    case stalled
    /// All tasks of the process's group waited for memory.
    case blocked
    /// Some tasks of the machine waited for memory; their groups may have limits of their own.
    case machineStalled
    /// All tasks of the machine waited for memory.
    case machineBlocked
    /// The kernel has difficulty reclaiming memory within the group (version 1's `medium`).
    case pressed
    /// The kernel can hardly reclaim memory within the group (version 1's `critical`).
    case critical
    /// The group ran out of memory: the kernel killed one of its processes or was about to.
    case outOfMemory
    /// The monitor has looked; the memory in use may have changed.
    case looked
}

struct MemoryUse: Equatable, Sendable {
    /// The largest share of a control group's limit; `nil` if there is no limit.
    var group: Double?
    /// The share of the machine's memory; `nil` if unknown.
    var machine: Double?

    init(group: Double? = nil, machine: Double? = nil) {
        self.group = group
        self.machine = machine
    }

    /// - Parameter root: the folder of `/proc`, for tests.
    init(_ groups: ControlGroups, root: String) {
        let memory = KernelText.read(root + "/proc/meminfo") ?? ""
        let total = KernelText.number("MemTotal", in: memory) ?? 0
        let bytes = total.multipliedReportingOverflow(by: 1024)
        group = groups.use(limitsBelow: total > 0 && !bytes.overflow ? bytes.partialValue : .max)
        if total > 0, let available = KernelText.number("MemAvailable", in: memory) {
            machine = 1 - Double(min(available, total)) / Double(total)
        }
    }
}

/// The time that tasks have waited for memory, from a pressure file (Linux, Documentation/accounting/psi.rst).
struct StallTimes: Equatable, Sendable {
    var some: Duration
    /// The time in which all tasks that were not idle waited.
    var full: Duration

    init?(_ text: String) {
        var times: [Substring: Duration] = [:]
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard let kind = parts.first, let total = parts.first(where: { $0.hasPrefix("total=") }),
                let microseconds = Int64(total.dropFirst(6)), (0...Self.most).contains(microseconds)
            else { continue }
            times[kind] = .microseconds(microseconds)
        }
        guard let some = times["some"] else { return nil }
        self.some = some
        full = times["full"] ?? .zero
    }

    /// In microseconds: about two thousand years.
    private static let most: Int64 = 1 << 56

    init(some: Duration, full: Duration) {
        self.some = some
        self.full = full
    }

    /// The sign for the time since an earlier look, by the shares that the triggers use; `nil` if both are below.
    func sign(since earlier: StallTimes, over time: Duration, ofMachine: Bool) -> PressureSign? {
        guard time > .zero else { return nil }
        if (full - earlier.full) / time >= StallTrigger.severe.share { return ofMachine ? .machineBlocked : .blocked }
        if (some - earlier.some) / time >= StallTrigger.moderate.share { return ofMachine ? .machineStalled : .stalled }
        return nil
    }
}

struct StallTrigger: Equatable, Sendable {
    var kind: String
    var stall: Duration
    /// Without privileges only multiples of two seconds are allowed.
    var window = Duration.seconds(2)

    /// Some task waits a tenth of the time. systemd uses this share for its services as well.
    static let moderate = StallTrigger(kind: "some", stall: .milliseconds(200))
    /// No task makes progress in a fifth of the time.
    static let severe = StallTrigger(kind: "full", stall: .milliseconds(400))

    var share: Double { stall / window }

    var text: String { "\(kind) \(Int(stall / .microseconds(1))) \(Int(window / .microseconds(1)))" }
}
