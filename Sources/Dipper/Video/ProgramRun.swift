import Foundation
import ProcessShims

/// One run of an untrusted program, whose output is read. Blocks the thread. Whatever happens, the program and its
/// group are killed and the program is waited for before ``run(reading:)`` returns.
struct ProgramRun {
    struct Ended {
        let isSuccess: Bool
        let output: Data
        let message: String?
    }

    let program: String
    let arguments: [String]
    let timeLimit: Duration
    let maximumSize: Int
    /// Whether nobody waits any more, asked at least ten times a second.
    let isCancelled: () -> Bool

    func run(reading input: consuming OwnedDescriptor) throws(DipperError) -> Ended {
        // The clock traps if the sum overflows.
        let deadline = ContinuousClock.now + min(max(timeLimit, .zero), .seconds(1_000_000_000))
        if isCancelled() { throw .cancelled }
        let output = try OwnedDescriptor.Pipe()
        let errors = try OwnedDescriptor.Pipe()
        let child = try ChildProcess(
            program, arguments, output: output.writing, errors: errors.writing, input: input, timeLimit: timeLimit)
        return try follow(child, output.reading, errors.reading, until: deadline)
    }

    private func follow(
        _ child: consuming ChildProcess, _ output: borrowing OwnedDescriptor, _ errors: borrowing OwnedDescriptor,
        until deadline: ContinuousClock.Instant
    ) throws(DipperError) -> Ended {
        var body = Data()
        var tail = ErrorTail()
        var waits = [output.number, errors.number].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var pause = Duration.milliseconds(1)
        while true {
            let hasOutput = waits[0].fd >= 0
            // The program is about to end, and no descriptor tells when, so the loop looks again after pauses.
            if !hasOutput, child.hasEnded { break }
            let left = max(.zero, ContinuousClock.now.duration(to: deadline))
            guard left > .zero else { throw .undecodable.with(detail: "'\(program)' took longer than \(timeLimit)") }
            if isCancelled() { throw .cancelled }
            let longest = min(left, hasOutput ? .milliseconds(100) : pause)
            let count = poll(&waits, nfds_t(waits.count), Self.milliseconds(longest))
            guard count >= 0 || errno == EINTR else { throw OwnedDescriptor.failure(program, errno) }
            guard count > 0 else {
                if !hasOutput { pause = min(pause * 2, .milliseconds(50)) }
                continue
            }
            if waits[0].revents != 0 {
                if let read = Self.take(&waits[0], &buffer) { body.append(contentsOf: read) }
                guard body.count <= maximumSize else {
                    throw .tooLarge.with(detail: "the picture has more than \(maximumSize) bytes")
                }
            }
            if waits[1].revents != 0, let read = Self.take(&waits[1], &buffer) { tail.append(read) }
        }
        let isSuccess = child.end()
        // The output of children is ignored from here on, but the program's own is still in the pipe.
        while waits[1].fd >= 0, poll(&waits[1], 1, 0) > 0, let read = Self.take(&waits[1], &buffer) {
            tail.append(read)
        }
        return Ended(isSuccess: isSuccess, output: body, message: tail.lastLine)
    }

    /// After the end, or an error, `poll` no longer waits for the descriptor.
    private static func take(_ wait: inout pollfd, _ buffer: inout [UInt8]) -> ArraySlice<UInt8>? {
        let count = read(wait.fd, &buffer, buffer.count)
        if count > 0 { return buffer[..<count] }
        if count == 0 || (errno != EINTR && errno != EAGAIN) { wait.fd = -1 }
        return nil
    }

    /// Rounded up, so that the loop does not spin with waits of zero.
    private static func milliseconds(_ duration: Duration) -> Int32 {
        Int32(min((duration / .milliseconds(1)).rounded(.up), 1e6))
    }
}

/// The last 4,096 bytes on standard error. The program may write much, and any bytes.
private struct ErrorTail {
    private var bytes: [UInt8] = []

    mutating func append(_ more: ArraySlice<UInt8>) {
        bytes += more
        if bytes.count > 4_096 { bytes.removeFirst(bytes.count - 4_096) }
    }

    var lastLine: String? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let line = text.split(whereSeparator: \.isNewline).last(where: { !$0.allSatisfy(\.isWhitespace) }) else {
            return nil
        }
        // A part of the line may come from the video.
        return line.prefix(300).visible
    }
}

/// A process that leads a group of its own. Destroying the value kills the group and waits for the process.
private struct ChildProcess: ~Copyable {
    private let id: pid_t

    /// Starts a program whose standard input is empty, with no other descriptors than these; the input is number 3.
    init(
        _ program: String, _ arguments: [String], output: consuming OwnedDescriptor, errors: consuming OwnedDescriptor,
        input: consuming OwnedDescriptor, timeLimit: Duration
    ) throws(DipperError) {
        let files = [-1, output.number, errors.number, input.number]
        var id = pid_t()
        let error = OwnedDescriptor.spawn(&id, program, [program] + arguments, Self.environment, files)
        switch error {
        case 0: self.id = id
        case ENOENT, EACCES, ENOEXEC, ENOTDIR: throw FrameCommand.missing(program)
        default: throw OwnedDescriptor.failure(program, error)
        }
        limit(timeLimit)
    }

    deinit { _ = Self.end(id) }

    /// The process is not waited for here, so the kernel does not give its number to another.
    var hasEnded: Bool {
        var information = siginfo_t()
        let result = waitid(P_PID, id_t(id), &information, WEXITED | WNOHANG | WNOWAIT)
        // An error means that other code has already waited for the process.
        return result != 0 || information.si_signo != 0
    }

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

    /// Limits processor time to four times the time limit and four seconds, in case this process is gone, and memory,
    /// whatever a video announces, to half of the machine's, but at least 1 GiB and at most 4 GiB.
    private func limit(_ timeLimit: Duration) {
        let seconds = UInt64(min(max(timeLimit.components.seconds, 0), 1_000_000)) * 4 + 4
        let half = ProcessInfo.processInfo.physicalMemory / 2
        _ = dipper_limit(id, min(max(half, 1 << 30), 4 << 30), seconds)
    }

    /// Other variables may be secret, or change what ffmpeg does.
    private static let environment: [String] =
        ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"].compactMap { name in
            ProcessInfo.processInfo.environment[name].map { "\(name)=\($0)" }
        } + ["LC_ALL=C"]
}
