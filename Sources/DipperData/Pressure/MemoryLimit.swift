import Foundation

/// How much memory there is for this process.
enum MemoryLimit {
    /// In bytes: what the machine has, or what the tightest control group allows if that is less.
    static var available: Int { available(root: "") }

    static func available(root: String, machine: UInt64 = ProcessInfo.processInfo.physicalMemory) -> Int {
        let machine = Int(clamping: machine)
        return min(machine, ControlGroups(root: root).limit ?? machine)
    }
}
