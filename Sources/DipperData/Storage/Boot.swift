import Foundation

/// The current boot of the machine.
enum Boot {
    /// The kernel's identifier of the current boot, which no other boot has; empty if the kernel does not provide one.
    static let current: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }()
}
