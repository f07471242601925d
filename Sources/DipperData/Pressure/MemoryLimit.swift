import Foundation

/// The memory that this process may use.
enum MemoryLimit {
    /// The machine's memory in bytes, or the lowest limit of a control group if that is less.
    static var available: Int { available(root: "") }

    static func available(root: String, machine: UInt64 = ProcessInfo.processInfo.physicalMemory) -> Int {
        let machine = Int(clamping: machine)
        return min(machine, ControlGroups(root: root).limit ?? machine)
    }
}
