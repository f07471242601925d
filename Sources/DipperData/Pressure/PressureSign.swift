/// Something that tells of memory getting short.
enum PressureSign: Equatable, Sendable {
    /// Tasks of the process's group had to wait for memory.
    case stalled
    /// All of them had to.
    case blocked
    /// The same of the machine's tasks, whose groups may have limits of their own.
    case machineStalled
    case machineBlocked
    /// The kernel finds it hard to take memory back within the group (version 1's `medium`).
    case pressed
    /// It hardly can (version 1's `critical`).
    case critical
    /// The group had to have a process killed, or was about to.
    case outOfMemory
    /// There may be news.
    case looked
}

/// How much memory is in use.
struct MemoryUse: Equatable, Sendable {
    /// Share of the tightest group's limit; `nil` if there is no limit.
    var group: Double?
    /// Share of the machine's memory; `nil` if it is not known.
    var machine: Double?

    init(group: Double? = nil, machine: Double? = nil) {
        self.group = group
        self.machine = machine
    }

    /// - Parameter memory: the text of `/proc/meminfo`.
    init(_ groups: ControlGroups, memory: String) {
        let total = KernelText.number("MemTotal", in: memory) ?? 0
        let bytes = total.multipliedReportingOverflow(by: 1024)
        group = groups.use(limitsBelow: total > 0 && !bytes.overflow ? bytes.partialValue : .max)
        if total > 0, let available = KernelText.number("MemAvailable", in: memory) {
            machine = 1 - Double(min(available, total)) / Double(total)
        }
    }
}
