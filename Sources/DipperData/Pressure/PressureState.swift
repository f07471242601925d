/// Makes a level of signs and time: a value, so that each rule is a line in a table.
///
/// A sign raises the level at once. Each level holds for some seconds after its last sign, then the one below it holds,
/// if it has been seen meanwhile or not: from `severe` to `normal` it takes two steps. While much of a limit is in
/// use the level stays, at shares a little below those that raise it, so that it does not go up and down with each
/// picture.
struct PressureState: Equatable, Sendable {
    /// How long a level holds after its last sign.
    let calm: Duration
    /// Shares of a group's limit that raise the level, and at which it begins to fall again.
    static let moderateUse = (rise: 0.85, fall: 0.75)
    static let severeUse = (rise: 0.95, fall: 0.90)
    /// A machine that waits for memory is short of it only if so much is in use; else it is some other group's limit
    /// that makes tasks wait.
    static let shortMachine = 0.8

    private(set) var level = MemoryPressure.normal
    /// When the level falls by one step, if nothing happens.
    private(set) var due: Duration?

    init(calm: Duration) {
        self.calm = calm
    }

    /// - Parameter now: on any clock that does not go back.
    mutating func apply(_ sign: PressureSign, _ use: MemoryUse, at now: Duration) {
        let seen = max(Self.level(of: sign, use), Self.level(of: use, during: level))
        if seen >= level {
            level = seen
        } else if let due, now >= due {
            // Not further than a step: what was just given back may be missing again at once.
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
