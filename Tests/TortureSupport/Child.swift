import Foundation

public struct Child: Sendable {
    public let process: pid_t

    /// Starts this program again, with other arguments.
    public init?(again arguments: [String]) { self.init("/proc/self/exe", arguments) }

    public init?(_ program: String, _ arguments: [String]) {
        var texts = Self.copies([program] + arguments)
        var variables = Self.copies(ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" })
        defer { for text in texts + variables { free(text) } }
        var process = pid_t()
        guard posix_spawn(&process, program, nil, nil, &texts, &variables) == 0 else { return nil }
        self.process = process
    }

    private static func copies(_ texts: [String]) -> [UnsafeMutablePointer<CChar>?] {
        texts.map { strdup($0) } + [nil]
    }

    /// Returns how the process ended, or `nil` if it is still running.
    public func endedByItself() -> String? {
        var status: Int32 = 0
        guard waitpid(process, &status, WNOHANG) == process else { return nil }
        return Self.text(status)
    }

    /// Kills the process and waits for its end; returns how it had ended if it was already gone.
    @discardableResult
    public func end() -> String? {
        if let reason = endedByItself() { return reason }
        kill(process, SIGKILL)
        _ = wait()
        return nil
    }

    /// Waits for the end of the process; returns whether its exit status is zero.
    public func succeeds() -> Bool { wait() == 0 }

    private func wait() -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, errno == EINTR {}
        return status
    }

    private static func text(_ status: Int32) -> String {
        status & 0x7F == 0 ? "status \(status >> 8 & 0xFF)" : "signal \(status & 0x7F)"
    }
}
