import Foundation
import ProcessShims
import Synchronization

/// A process of the program that decodes, as it is before its wall stands. Its copies are the helpers: a copy takes a
/// fraction of the time that a program takes to start, and shares its pages. It reads nothing but the requests for copies.
/// The helpers are children of this program, not of the server.
final class ForkServer: Sendable {
    /// The time that a new server has for a copy, and a helper for its wall.
    static let patience = Duration.seconds(20)
    /// The time of a server that has made one.
    private static let laterPatience = Duration.seconds(2)
    private static let isHelper = ProcessInfo.processInfo.environment[DecoderProcess.variable] != nil

    private let program: String
    private let process: OwnedProcess
    private let socket: OwnedDescriptor
    private let isProved = Atomic(false)

    init(_ program: String) throws(DipperError) {
        // Otherwise a program that is its own helper, but does not say so in time, would start itself without end.
        if Self.isHelper { throw .notIsolated.with(detail: "this process was started as a helper") }
        let sockets = try OwnedDescriptor.Pipe(dipper_socket_pair, "a socket")
        let libraries = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"].map { "LD_LIBRARY_PATH=\($0)" }
        let environment = ["\(DecoderProcess.variable)=1", libraries].compactMap(\.self)
        var id = pid_t()
        let error = OwnedDescriptor.spawn(
            &id, program, ["dipper-decoder", program], environment, [-1, -1, -1, sockets.writing.number])
        guard error == 0 else {
            throw .notIsolated.with(detail: "'\(program)': \(String(cString: strerror(error)))")
        }
        self.program = program
        process = OwnedProcess(id)
        socket = sockets.reading
    }

    deinit { _ = process.end() }

    /// Starts a helper with its descriptors: the socket, the lifeline and the memory. Returns the number of this new child.
    /// Only one thread at a time may call it.
    /// - Throws: `DipperError.connectionLost` if the server has ended or does not answer; then it has to be replaced.
    func fork(_ files: [Int32]) throws(DipperError) -> pid_t {
        var state = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
        let time = isProved.load(ordering: .relaxed) ? Self.laterPatience : Self.patience
        let deadline = SuspendingClock.now + time
        if DecoderPacket([]).send(to: socket.number, files) {
            while poll(&state, 1, 100) <= 0, SuspendingClock.now < deadline {}
        }
        guard let numbers = DecoderPacket(from: socket.number, waits: false)?.numbers else {
            let end = SuspendingClock.now < deadline ? process.end().words : "took longer than \(time)"
            throw .connectionLost.with(detail: "'\(program)' is no decoder: the process \(end)")
        }
        guard numbers[0] > 1, let id = pid_t(exactly: numbers[0]) else {
            let error = Int32(truncatingIfNeeded: numbers[1])
            let reason =
                error == EBUSY
                ? "it has started a thread before runDecoderIfAsked()"
                : "clone with CLONE_PARENT: \(String(cString: strerror(error)))"
            throw .notIsolated.with(detail: "'\(program)' cannot be copied: \(reason)")
        }
        isProved.store(true, ordering: .relaxed)
        return id
    }

    /// Is the server: copies this process for each request, until the program closes the socket. Returns in the copies.
    static func serve() {
        var files: [Int32] = [-1, -1, -1]
        while DecoderPacket(from: DecoderProcess.socketNumber, &files, waits: true) != nil {
            let id = dipper_fork_sibling()
            let error = errno
            if id == 0 {
                // First away from the new numbers. The wall closes all others.
                files = files.map { fcntl($0, F_DUPFD, 10) }
                for (file, number) in zip(files, DecoderProcess.socketNumber...) where dup2(file, number) < 0 {
                    _exit(1)
                }
                return
            }
            // Otherwise the program would not see the end of a helper.
            for file in files { close(file) }
            guard DecoderPacket([Int(id), Int(error)]).send(to: DecoderProcess.socketNumber) else { break }
        }
        _exit(0)
    }
}

/// A child of this program.
struct OwnedProcess: ~Copyable, Sendable {
    let id: pid_t
    /// Its descriptor, if the kernel has such; see `dipper_process`.
    private let handle: Int32
    private let hasEnded = Atomic(false)

    init(_ id: pid_t) { (self.id, handle) = (id, dipper_process(id)) }

    deinit { if handle >= 0 { close(handle) } }

    /// Whether other code has waited for its end: its number may be another process's.
    var isLost: Bool { handle == -2 }

    /// Returns whether the signal was sent.
    func signal(_ number: Int32) -> Bool { dipper_signal(handle, id, number) == 0 }

    /// Kills the process and waits for its end. Returns the signal that has ended it, or 0, and the same in words; no signal
    /// if this or other code has waited for it, or if it is another user's by now.
    func end() -> (signal: Int32?, words: String) {
        var number: Int32 = 0
        guard !isLost, !hasEnded.exchange(true, ordering: .relaxed) else { return (nil, "has ended") }
        // It ends with its descriptors.
        if !signal(SIGKILL), errno == EPERM { return (nil, "cannot be ended") }
        let status = dipper_wait(handle, id, &number)
        guard status >= 0 else { return (nil, "has ended") }
        return (number, number == 0 ? "ended with status \(status)" : "was ended by signal \(number)")
    }
}

/// The program that helpers run.
enum DecoderProgram {
    private static let name = "dipper-decoder"
    /// Whether this program can be its own helper.
    static let isThisOne = Atomic(false)

    private static let places: [String] = {
        let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folder = program.map { URL(fileURLWithPath: $0).deletingLastPathComponent() }
        return [name, "../libexec/" + name].compactMap { folder?.appendingPathComponent($0).standardized.path }
    }()
    private static let beside = places.first { FileManager.default.isExecutableFile(atPath: $0) }

    /// The path of the program: the given one, or this one if it calls ``ImageCache/runDecoderIfAsked(codecs:)``, or else
    /// the one beside it. Throws `DipperError.notIsolated`.
    static func path(_ given: URL?) throws(DipperError) -> String {
        if let given { return given.path }
        // The kernel starts what runs now, also if another version has taken its place on disk.
        if isThisOne.load(ordering: .relaxed) { return "/proc/self/exe" }
        if let beside { return beside }
        throw .notIsolated.with(
            detail: "this program does not call ImageCache.runDecoderIfAsked(), and there is no program at "
                + places.joined(separator: " or "))
    }
}
