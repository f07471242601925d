import DipperData
import Foundation
import ProcessShims

/// A process that leads a group of its own. Destroying the value kills the group and waits for the process.
struct ChildProcess: ~Copyable {
    private let id: pid_t

    /// Starts a program whose standard input is empty, and whose only other descriptors are the given ones.
    /// - Parameters:
    ///   - program: the absolute path of the program.
    ///   - input: the program's descriptor 3.
    ///   - timeLimit: the kernel ends the program after four times this processor time and four seconds more, in case
    ///     this process is no longer there to do so.
    init(
        _ program: String, _ arguments: [String], output: consuming OwnedDescriptor, errors: consuming OwnedDescriptor,
        input: consuming OwnedDescriptor, timeLimit: Duration
    ) throws(DipperError) {
        // A low descriptor could be overwritten before it is copied.
        let output = try output.raised()
        let errors = try errors.raised()
        let input = try input.raised()
        let files = [output.number, errors.number, input.number]
        var id = pid_t()
        let error = Self.withPointers([program] + arguments) { arguments in
            Self.withPointers(Self.environment) { environment in
                dipper_spawn(&id, program, arguments, environment, files)
            }
        }
        switch error {
        case 0: self.id = id
        case ENOENT, EACCES, ENOEXEC, ENOTDIR: throw FrameCommand.missing(program)
        default: throw OwnedDescriptor.failure(program, error)
        }
        limit(timeLimit)
    }

    deinit { _ = Self.end(id) }

    /// Whether the program has ended. The process is not waited for here, so the kernel does not give its number to
    /// another.
    var hasEnded: Bool {
        var information = siginfo_t()
        let result = waitid(P_PID, id_t(id), &information, WEXITED | WNOHANG | WNOWAIT)
        // An error means that other code has already waited for the process.
        return result != 0 || information.si_signo != 0
    }

    /// Kills what is left of the group and waits for the process.
    /// - Returns: whether the program ended by itself, with status 0.
    consuming func end() -> Bool {
        let isSuccess = Self.end(id)
        discard self
        return isSuccess
    }

    private static func end(_ id: pid_t) -> Bool {
        var information = siginfo_t()
        // Until somebody waits for the process, its number belongs to its group and to no other.
        if waitid(P_PID, id_t(id), &information, WEXITED | WNOHANG | WNOWAIT) == 0 { kill(-id, SIGKILL) }
        var status: Int32 = 0
        while true {
            let waited = waitpid(id, &status, 0)
            // Other code has waited for all children: only the program's output is left to judge by.
            if waited < 0, errno != EINTR { return true }
            if waited == id { return status == 0 }
        }
    }

    /// Limits the program's memory to half of the machine's, but at least 1 GiB and at most 4 GiB, whatever size a
    /// video announces, and its processor time.
    private func limit(_ timeLimit: Duration) {
        let seconds = UInt64(min(max(timeLimit.components.seconds, 0), 1_000_000)) * 4 + 4
        let half = ProcessInfo.processInfo.physicalMemory / 2
        _ = dipper_limit(id, min(max(half, 1 << 30), 4 << 30), seconds)
    }

    /// The variables that a program needs to run at all. Other variables may be secret, or change what ffmpeg does.
    private static let environment: [String] =
        ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"].compactMap { name in
            ProcessInfo.processInfo.environment[name].map { "\(name)=\($0)" }
        } + ["LC_ALL=C"]

    private static func withPointers<Result>(
        _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
    ) -> Result {
        let pointers = texts.map { strdup($0) }
        defer { pointers.forEach { free($0) } }
        return body(pointers + [nil])
    }
}
