import DipperData
import Foundation

/// One run of an untrusted program, whose output is read. Blocks the thread.
///
/// Whatever happens, the program and its group are killed and the program is waited for before
/// ``run(reading:endingAt:)`` returns.
struct ProgramRun {
    struct Ended {
        /// Whether the program ended by itself, with status 0.
        let isSuccess: Bool
        /// The bytes that the program wrote to standard output.
        let output: Data
        /// The last line that the program wrote to standard error, if there is one.
        let message: String?
    }

    /// The absolute path of the program.
    let program: String
    let arguments: [String]
    let timeLimit: Duration
    let maximumSize: Int
    /// Returns whether nobody waits any more; asked ten times a second. `nil` if an event tells.
    var isCancelled: (() -> Bool)?

    /// Runs the program and returns its output.
    /// - Parameters:
    ///   - input: the program's descriptor 3.
    ///   - wakeup: ends the run when it becomes readable.
    func run(
        reading input: consuming OwnedDescriptor, endingAt wakeup: borrowing OwnedDescriptor
    ) throws(DipperError) -> Ended {
        // The clock traps if the sum overflows.
        let deadline = ContinuousClock.now + min(max(timeLimit, .zero), .seconds(1_000_000_000))
        let output = try OwnedDescriptor.Pipe()
        let errors = try OwnedDescriptor.Pipe()
        let child = try ChildProcess(
            program, arguments, output: output.writing, errors: errors.writing, input: input, timeLimit: timeLimit)
        return try follow(child, output.reading, errors.reading, wakeup, until: deadline)
    }

    private func follow(
        _ child: consuming ChildProcess, _ output: borrowing OwnedDescriptor, _ errors: borrowing OwnedDescriptor,
        _ wakeup: borrowing OwnedDescriptor, until deadline: ContinuousClock.Instant
    ) throws(DipperError) -> Ended {
        var body = Data()
        var tail = ErrorTail()
        var waits = [wakeup.number, output.number, errors.number].map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var pause = Duration.milliseconds(1)
        while true {
            let hasOutput = waits[1].fd >= 0
            // The output is complete, and the program is about to end. No descriptor tells when: the loop looks again
            // after pauses.
            if !hasOutput, child.hasEnded { break }
            let left = max(.zero, ContinuousClock.now.duration(to: deadline))
            guard left > .zero else { throw .undecodable.with(detail: "'\(program)' took longer than \(timeLimit)") }
            if isCancelled?() == true { throw .cancelled }
            let longest = isCancelled == nil ? left : min(left, .milliseconds(100))
            let count = poll(&waits, nfds_t(waits.count), Self.milliseconds(hasOutput ? longest : min(longest, pause)))
            guard count >= 0 || errno == EINTR else { throw OwnedDescriptor.failure(program, errno) }
            guard count > 0 else {
                if !hasOutput { pause = min(pause * 2, .milliseconds(50)) }
                continue
            }
            if waits[0].revents != 0 { throw .cancelled }
            if waits[1].revents != 0 {
                if let read = Self.take(&waits[1], &buffer) { body.append(contentsOf: read) }
                guard body.count <= maximumSize else {
                    throw .tooLarge.with(detail: "the picture has more than \(maximumSize) bytes")
                }
            }
            if waits[2].revents != 0, let read = Self.take(&waits[2], &buffer) { tail.append(read) }
        }
        let isSuccess = child.end()
        // Output of the program's children is ignored from here on, but what the program itself wrote is still in the
        // pipe.
        while waits[2].fd >= 0, poll(&waits[2], 1, 0) > 0, let read = Self.take(&waits[2], &buffer) {
            tail.append(read)
        }
        return Ended(isSuccess: isSuccess, output: body, message: tail.lastLine)
    }

    /// Reads the available bytes. After the end, or an error, `poll` no longer waits for the descriptor.
    private static func take(_ wait: inout pollfd, _ buffer: inout [UInt8]) -> ArraySlice<UInt8>? {
        let count = read(wait.fd, &buffer, buffer.count)
        if count > 0 { return buffer[..<count] }
        if count == 0 || (errno != EINTR && errno != EAGAIN) { wait.fd = -1 }
        return nil
    }

    /// Returns whole milliseconds, rounded up, so that the loop does not spin with waits of zero.
    private static func milliseconds(_ duration: Duration) -> Int32 {
        Int32(min((duration / .milliseconds(1)).rounded(.up), 1e6))
    }
}

/// The last 4,096 bytes that a program wrote to standard error. The program may write much, and any bytes.
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
        // A part of the line may come from the video, so characters that are not visible are replaced.
        let safe = line.prefix(300).unicodeScalars.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: "?"
            default: String(scalar)
            }
        }
        return safe.joined()
    }
}
