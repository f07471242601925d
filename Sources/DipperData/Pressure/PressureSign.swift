/// An observation about memory pressure.
enum PressureSign: Equatable, Sendable {
    /// Some tasks of the process's group had to wait for memory.
    case stalled
    /// All tasks of the process's group had to wait for memory.
    case blocked
    /// Some tasks of the machine had to wait for memory; their groups may have limits of their own.
    case machineStalled
    /// All tasks of the machine had to wait for memory.
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

/// The shares of memory in use.
struct MemoryUse: Equatable, Sendable {
    /// The largest share of a control group's limit that is in use; `nil` if there is no limit.
    var group: Double?
    /// The share of the machine's memory that is in use; `nil` if unknown.
    var machine: Double?

    init(group: Double? = nil, machine: Double? = nil) {
        self.group = group
        self.machine = machine
    }

    /// Reads the use of the groups, and that of the machine.
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
