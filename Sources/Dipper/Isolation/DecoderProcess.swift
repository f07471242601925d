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
    /// In bytes, beside what the limits of a decode allow: the addresses of the program and its libraries.
    private static let ownAddresses = 1 << 30

    private let program: String
    private let id: pid_t
    private let socket: OwnedDescriptor
    /// The helper ends when it is closed, so with this program.
    private let lifeline: OwnedDescriptor
    private let isGone = Atomic(false)
    private let pictures = Atomic(0)
    private static let isHelper = ProcessInfo.processInfo.environment[variable] != nil
    /// The limit of bytes that the kernel knows.
    private let allowed = Atomic(-1)
    private let greeting = Mutex<DecoderGreeting?>(nil)

    /// Starts a helper. Does not wait until its wall stands.
    init(_ program: String) throws(DipperError) {
        // Otherwise a program that is its own helper, but does not say so in time, would start itself without end.
        if Self.isHelper { throw .notIsolated.with(detail: "this process was started as a helper") }
        let pipe = try OwnedDescriptor.Pipe()
        let sockets = try OwnedDescriptor.Pipe(dipper_socket_pair, "a socket")
        let libraries = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"].map { "LD_LIBRARY_PATH=\($0)" }
        let environment = ["\(Self.variable)=1", libraries].compactMap(\.self)
        let files = [-1, -1, -1, sockets.writing.number, pipe.reading.number]
        var id = pid_t()
        let error = OwnedDescriptor.spawn(&id, program, ["dipper-decoder", program], environment, files)
        guard error == 0 else {
            throw .notIsolated.with(detail: "'\(program)': \(String(cString: strerror(error)))")
        }
        (self.program, self.id) = (program, id)
        socket = sockets.reading
        lifeline = pipe.writing
    }

    deinit { end() }

    /// Returns what the helper has said first. The first call waits until its wall stands.
    func greet() throws(DipperError) -> DecoderGreeting {
        if let known = greeting.withLock({ $0 }) { return known }
        var reason: String?
        do throws(DipperError) {
            if let new = DecoderGreeting(try receive(within: .seconds(20)) { false }) {
                greeting.withLock { $0 = new }
                return new
            }
        } catch {
            reason = error.detail
        }
        end()
        throw .notIsolated.with(detail: "'\(program)' is no decoder: \(reason ?? "it is of another version of Dipper")")
    }

    var hasEnded: Bool { isGone.load(ordering: .acquiring) }

    /// Returns the number of pictures that the helper has decoded, with one more.
    func countPicture() -> Int { pictures.add(1, ordering: .relaxed).newValue }

    /// Kills the process and waits for its end. Returns how it ended.
    @discardableResult
    func end() -> String {
        guard !isGone.exchange(true, ordering: .acquiringAndReleasing) else { return "has ended" }
        kill(id, SIGKILL)
        var status: Int32 = 0
        while waitpid(id, &status, 0) < 0 {
            // Other code may have waited for all children.
            if errno != EINTR { return "has ended" }
        }
        return status & 0x7F == 0 ? "ended with status \(status >> 8 & 0xFF)" : "was ended by signal \(status & 0x7F)"
    }

    /// Tells the helper that an animation is not needed any more. Does not wait.
    func close(_ session: Int) {
        var request = DecoderRequest(.close)
        request.session = session
        // A helper that has too much to do forgets the oldest animations by itself.
        _ = request.packet.send(to: socket.number)
    }

    /// Asks the helper, and waits for its answer. After an error the helper must not be asked again.
    /// - Parameter data: the encoded file, unless the helper has it.
    /// - Throws: `DipperError.connectionLost` if the helper had ended before it was asked, `DipperError.decoderFailed` if
    ///   it crashed, took too long or broke its rules.
    func ask(
        _ request: DecoderRequest, _ data: Data?
    ) throws(DipperError) -> (reply: DecoderReply, pixels: PixelStorage?) {
        let options = request.options
        let pixels = try SharedFile()
        if let data {
            let file = try SharedFile(data)
            try send(request, [pixels.file.number, file.file.number])
        } else {
            try send(request, [pixels.file.number])
        }
        let packet = try receive(within: options.limits.time, options.isCancelled)
        guard let reply = DecoderReply(packet, options.limits) else {
            throw .decoderFailed.with(detail: "the helper's answer cannot be true")
        }
        guard case .picture(let picture) = reply else { return (reply, nil) }
        guard let storage = try pixels.pixels(picture.size.byteCount()) else {
            throw .decoderFailed.with(detail: "the helper keeps access to the pixels")
        }
        return (reply, storage)
    }

    private func send(_ request: DecoderRequest, _ files: [Int32]) throws(DipperError) {
        let bytes = max(0, request.options.limits.bytes)
        if allowed.exchange(bytes, ordering: .relaxed) != bytes {
            let addresses = UInt64(bytes) + UInt64(Self.ownAddresses)
            guard dipper_allow(id, addresses, UInt64(bytes)) == 0 else { throw .connectionLost }
        }
        guard request.packet.send(to: socket.number, files) else { throw .connectionLost }
    }

    /// Waits for a packet, and looks a hundred times a second whether the work is cancelled.
    private func receive(
        within time: Duration, _ isCancelled: () -> Bool
    ) throws(DipperError) -> DecoderPacket {
        // Not the time for which the machine sleeps. The clock traps if the sum overflows.
        var deadline = SuspendingClock.now + min(max(time, .zero), .seconds(1_000_000_000))
        var hasAsked = false
        var state = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
        while poll(&state, 1, 10) <= 0 {
            guard SuspendingClock.now < deadline else {
                if hasAsked { throw .cancelled }
                throw .decoderFailed.with(detail: "the helper took longer than \(time)")
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
        guard length > 0 else { throw .decoderFailed.with(detail: "the helper \(end())") }
        guard let packet = DecoderPacket(bytes.prefix(length)) else {
            throw .decoderFailed.with(detail: "the helper's answer is broken")
        }
        return packet
    }
}
