/// The level of memory pressure, made from signs and times: a value without a clock.
///
/// A sign raises the level at once. A level lasts for some seconds after its last sign. Then the level falls by one
/// step, so that it takes two steps from `severe` to `normal`. While much of a limit is in use the level stays: the
/// shares at which it falls are a little below those that raise it, so that it does not change with every picture.
struct PressureState: Equatable, Sendable {
    /// How long a level lasts after its last sign.
    let calm: Duration
    /// The shares of a group's limit that raise the level to `moderate`, and below which it falls again.
    static let moderateUse = (rise: 0.85, fall: 0.75)
    /// The shares of a group's limit that raise the level to `severe`, and below which it falls again.
    static let severeUse = (rise: 0.95, fall: 0.90)
    /// The share of the machine's memory from which stalls of the machine's tasks count. With less in use, the tasks
    /// wait because of the limits of their groups.
    static let shortMachine = 0.8

    private(set) var level = MemoryPressure.normal
    /// The time at which the level falls by one step if there is no further sign.
    private(set) var due: Duration?

    init(calm: Duration) {
        self.calm = calm
    }

    /// Applies a sign and the memory in use.
    /// - Parameter now: the time on any clock that does not go back.
    mutating func apply(_ sign: PressureSign, _ use: MemoryUse, at now: Duration) {
        let seen = max(Self.level(of: sign, use), Self.level(of: use, during: level))
        if seen >= level {
            level = seen
        } else if let due, now >= due {
            // The level falls by one step only, because the memory that was just freed may be needed again at once.
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
