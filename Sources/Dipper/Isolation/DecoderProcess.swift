import Foundation
import ProcessShims
import Synchronization

/// A helper process that decodes pictures. Who has taken it from the pool is the only one to ask it.
final class DecoderProcess: Sendable {
    /// The variable that asks a program for a helper; see ``ImageCache/runDecoderIfAsked(codecs:)``.
    static let variable = "DIPPER_DECODER"
    /// The descriptors of a helper.
    static let socketNumber: Int32 = 3
    static let lifelineNumber: Int32 = 4
    static let memoryNumber: Int32 = 5
    /// In bytes, beside what the limits of a decode allow: the addresses of the program and its libraries.
    private static let ownAddresses = 1 << 30
    /// The signals by which a process ends because of what it does itself. Others come from outside: from a user, or from
    /// the kernel when memory is short.
    private static let faults: Set = [
        SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGXFSZ, SIGXCPU,
    ]

    private let program: String
    private let process: OwnedProcess
    private let socket: OwnedDescriptor
    /// The helper ends when it is closed, so with this program.
    private let lifeline: OwnedDescriptor
    private let memory: SharedMemory
    private let isGone = Atomic(false)
    private let pictures = Atomic(0)
    private let lastFault = Mutex(Fault.nobody)
    /// The number of animations whose next frames the helper decodes.
    let animations = Atomic(0)
    private let greeting = Mutex<DecoderGreeting?>(nil)

    /// Has the server start a helper of the program. Does not wait until its wall stands.
    init(_ program: String, by server: ForkServer) throws(DipperError) {
        let pipe = try OwnedDescriptor.Pipe()
        let sockets = try OwnedDescriptor.Pipe(dipper_socket_pair, "a socket")
        let shared = try SharedMemory.makeFile()
        let memory = try SharedMemory(shared.number)
        process = OwnedProcess(try server.fork([sockets.writing.number, pipe.reading.number, shared.number]))
        // Some systems take no notice of the flag, and some programs start others in their place.
        guard !process.isLost else {
            throw .notIsolated.with(detail: "the copy of '\(program)' is no child of this program, or was waited for")
        }
        self.program = program
        socket = sockets.reading
        lifeline = pipe.writing
        self.memory = memory
    }

    deinit { end() }

    /// Returns what the helper has said first. The first call waits until its wall stands.
    func greet() throws(DipperError) -> DecoderGreeting {
        if let known = greeting.withLock({ $0 }) { return known }
        var reason: String?
        do throws(DipperError) {
            if let new = DecoderGreeting(try receive(within: ForkServer.patience) { false }) {
                greeting.withLock { $0 = new }
                return new
            }
        } catch {
            reason = error.detail
        }
        end()
        throw .notIsolated.with(detail: "'\(program)' is no decoder: \(reason ?? "it is of another version of Dipper")")
    }

    /// Whether ``greet()`` does not wait.
    var isReady: Bool {
        var state = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
        return greeting.withLock { $0 != nil } || poll(&state, 1, 0) > 0
    }

    var hasEnded: Bool { isGone.load(ordering: .acquiring) }

    /// Returns the number of pictures that the helper has decoded, with one more.
    func countPicture() -> Int { pictures.add(1, ordering: .relaxed).newValue }

    /// Kills the process and waits for its end. Returns how it ended.
    @discardableResult
    func end() -> String {
        blame(.outside)
        guard !isGone.exchange(true, ordering: .acquiringAndReleasing) else { return "has ended" }
        let (signal, words) = process.end()
        if let signal, signal == 0 || Self.faults.contains(signal) { blame(.file) }
        return words
    }

    /// Tells the helper that an animation is not needed any more. Does not wait.
    func close(_ session: Int) {
        animations.subtract(1, ordering: .relaxed)
        var request = DecoderRequest(.close)
        request.session = session
        // A helper that has too much to do forgets the oldest animations by itself.
        _ = request.packet.send(to: socket.number)
    }

    /// Asks the helper, and waits for its answer. After an error the helper must not be asked again, and ``fault`` says
    /// whose fault it was.
    /// - Parameter data: the encoded file, unless the helper has it.
    /// - Throws: `DipperError.connectionLost` if the helper had ended before it was asked, `DipperError.decoderFailed` if
    ///   it crashed, took too long or broke its rules.
    func ask(
        _ request: DecoderRequest, _ data: Data?
    ) throws(DipperError) -> (reply: DecoderReply, pixels: PixelStorage?) {
        var request = request
        request.bringsFile = data != nil
        let pixels = request.mostBytes > SharedMemory.part ? try SharedFile() : nil
        var file: SharedFile?
        if let data, data.count > SharedMemory.part {
            file = try SharedFile(data)
        } else if let data {
            data.copyBytes(to: memory.file.assumingMemoryBound(to: UInt8.self), count: data.count)
        }
        let used = processorTime
        try send(request, [pixels, file].compactMap { $0?.file.number }, used)
        let packet = try receive(within: request.options.limits.time, used, request.options.isCancelled)
        var limits = request.options.limits
        limits.bytes = request.mostBytes
        guard let reply = DecoderReply(packet, limits) else {
            throw failure(.file, "the helper's answer cannot be true")
        }
        guard case .picture(let picture) = reply else { return (reply, nil) }
        let byteCount = try picture.size.byteCount()
        // To copy so little takes less than to seal what another processor has just written.
        if byteCount <= SharedMemory.part {
            let storage = try PixelStorage(byteCount: byteCount)
            storage.base.copyMemory(from: memory.pixels, byteCount: byteCount)
            return (reply, storage)
        }
        guard let storage = try pixels?.pixels(byteCount) else {
            throw failure(.file, "the helper keeps access to the pixels")
        }
        return (reply, storage)
    }

    private func send(_ request: DecoderRequest, _ files: [Int32], _ used: Duration) throws(DipperError) {
        let limits = request.options.limits
        let seconds = (used + Self.finite(limits.time)).components.seconds + 2
        // The number may be another process's only if other code has waited for this one's end.
        guard !hasEnded, process.signal(0),
            dipper_allow(
                process.id, UInt64(max(0, limits.bytes)) + UInt64(Self.ownAddresses), UInt64(max(0, request.mostBytes)),
                UInt64(seconds)) == 0,
            request.packet.send(to: socket.number, files)
        else { throw .connectionLost }
    }

    /// Waits for a packet, and looks a hundred times a second whether the work is cancelled.
    /// - Parameter used: the processor time of the helper when it was asked.
    private func receive(
        within time: Duration, _ used: Duration = .zero, _ isCancelled: () -> Bool
    ) throws(DipperError) -> DecoderPacket {
        // Not the time for which the machine sleeps.
        var deadline = SuspendingClock.now + Self.finite(time)
        var hasAsked = false
        var state = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
        while poll(&state, 1, 10) <= 0 {
            guard SuspendingClock.now < deadline else {
                if hasAsked { throw .cancelled }
                // One that had no processor for half of the time has waited for it.
                let isSlow = (processorTime - used) * 2 < time
                throw failure(isSlow ? .machine : .file, "the helper took longer than \(time)")
            }
            if !hasAsked, isCancelled() {
                hasAsked = true
                // Decoders look every few rows.
                deadline = min(deadline, SuspendingClock.now + .seconds(1))
                _ = DecoderRequest(.cancel).packet.send(to: socket.number)
            }
        }
        var bytes = [UInt8](repeating: 0, count: DecoderPacket.longest)
        let length = dipper_receive(socket.number, &bytes, bytes.count, nil, 0)
        guard length > 0 else {
            let how = end()
            throw .decoderFailed.with(detail: "the helper \(how)")
        }
        guard let packet = DecoderPacket(bytes.prefix(length)) else {
            throw failure(.file, "the helper's answer is broken")
        }
        return packet
    }

    /// The clock traps if a sum overflows.
    private static func finite(_ time: Duration) -> Duration { min(max(time, .zero), .seconds(1_000_000_000)) }

    /// The time for which a processor has run the helper.
    private var processorTime: Duration {
        var (clock, time) = (clockid_t(), timespec())
        guard clock_getcpuclockid(process.id, &clock) == 0, clock_gettime(clock, &time) == 0 else { return .zero }
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    // MARK: Faults

    /// The party to blame for an error.
    enum Fault {
        case nobody
        /// The file makes the decoder crash, end, or break its rules, or take too much time.
        case file
        /// The machine had too little time for the helper.
        case machine
        /// Somebody has ended the helper: a user, or the kernel when memory was short.
        case outside
    }

    var fault: Fault { lastFault.withLock { $0 } }

    private func blame(_ fault: Fault) { lastFault.withLock { $0 = fault } }

    private func failure(_ fault: Fault, _ detail: String) -> DipperError {
        blame(fault)
        return .decoderFailed.with(detail: detail)
    }
}
