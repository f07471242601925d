import DipperData
import Foundation

/// Runs a program that nobody trusts, and reads what it writes. Blocks.
///
/// Whatever happens, the program and its group are gone and waited for when ``run(reading:endingAt:)`` returns.
struct ProgramRun {
    struct Ended {
        /// Whether the program ended by itself, with status 0.
        let isSuccess: Bool
        /// What it wrote to standard output.
        let output: Data
        /// The last line of what it wrote to standard error, if there is one.
        let message: String?
    }

    /// An absolute path.
    let program: String
    let arguments: [String]
    let timeLimit: Duration
    let maximumSize: Int

    /// - Parameters:
    ///   - input: the program's descriptor 3.
    ///   - wakeup: ends the run when it can be read.
    func run(
        reading input: consuming OwnedDescriptor, endingAt wakeup: borrowing OwnedDescriptor
    ) throws(DipperError) -> Ended {
        // Clocks trap where a sum does not fit.
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
            // All of the answer is here: the program is about to end, of which no descriptor tells.
            if !hasOutput, child.hasEnded { break }
            let left = max(.zero, ContinuousClock.now.duration(to: deadline))
            guard left > .zero else { throw .undecodable.with(detail: "'\(program)' took longer than \(timeLimit)") }
            let count = poll(&waits, nfds_t(waits.count), Self.milliseconds(hasOutput ? left : min(left, pause)))
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
        // What its children write is nobody's concern any more, but what it wrote itself is still there.
        while waits[2].fd >= 0, poll(&waits[2], 1, 0) > 0, let read = Self.take(&waits[2], &buffer) {
            tail.append(read)
        }
        return Ended(isSuccess: isSuccess, output: body, message: tail.lastLine)
    }

    /// What is there; at the end the descriptor is not waited for any more.
    private static func take(_ wait: inout pollfd, _ buffer: inout [UInt8]) -> ArraySlice<UInt8>? {
        let count = read(wait.fd, &buffer, buffer.count)
        if count > 0 { return buffer[..<count] }
        if count == 0 || (errno != EINTR && errno != EAGAIN) { wait.fd = -1 }
        return nil
    }

    /// Rounded up, so that it never waits for nothing over and over.
    private static func milliseconds(_ duration: Duration) -> Int32 {
        Int32(min((duration / .milliseconds(1)).rounded(.up), 1e6))
    }
}

/// The last of what a program says, which may be much, and any bytes.
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
        // Part of it may come from the video.
        let safe = line.prefix(300).unicodeScalars.map { scalar in
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned: "?"
            default: String(scalar)
            }
        }
        return safe.joined()
    }
}
