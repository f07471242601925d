import Foundation

/// The time since the machine was started.
enum Boot {
    /// A name that no other start of a machine has; empty if the kernel does not tell.
    static let current: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/random/boot_id", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? ""
    }()
}
