import DipperData
import Foundation
import ProcessShims
import Synchronization

/// The wall around the helper processes that decode pictures, as it is on this machine. See
/// ``ImageCache/isolationPosture``.
public struct IsolationPosture: Sendable, Hashable, CustomStringConvertible {
    /// The path of the program that the helpers run; `nil` if there is none, as ``missing`` explains.
    public let program: String?
    /// The parts that are missing, with the reasons, in words; empty if the wall is complete.
    public let missing: [String]

    /// Whether helpers decode behind a complete wall, so that ``Isolation/required`` works.
    public var isComplete: Bool { missing.isEmpty }

    /// The program and what is missing, in a sentence.
    public var description: String {
        let wall = isComplete ? "the wall is complete" : "missing: " + missing.joined(separator: "; ")
        return program.map { "'\($0)' decodes; \(wall)" } ?? wall
    }
}

extension ImageCache {
    /// The program that decodes, and the parts of the wall around it that are missing on this machine; see ``Isolation``.
    /// If no helper runs yet, one is started.
    ///
    /// ```swift
    /// let posture = await cache.isolationPosture
    /// if !posture.isComplete { print(posture) }       // for example: missing: no files (Landlock): Function not implemented
    /// ```
    public var isolationPosture: IsolationPosture {
        get async { await read { $0.configuration.isolationPosture } }
    }

    /// Turns this process into one that starts helpers, which are copies of it and decode pictures, if another one has
    /// started it as such; otherwise returns at once. After this call, ``Isolation`` uses the program itself for its
    /// helpers.
    ///
    /// Call it before anything else, so that helpers take little memory, and before the program starts a thread or takes
    /// a lock, because a copy of a process has no other threads, and would wait for what they have locked:
    ///
    /// ```swift
    /// ImageCache.runDecoderIfAsked()                          // the first line of the program
    /// var configuration = ImageCache.Configuration(directory: folder)
    /// configuration.isolation = .required
    /// let cache = ImageCache(configuration)
    /// ```
    /// - Parameter codecs: the decoders of the helpers, with the program's own.
    public static func runDecoderIfAsked(codecs: CodecRegistry = .standard) {
        DecoderProgram.isThisOne.store(true, ordering: .relaxed)
        guard ProcessInfo.processInfo.environment[DecoderProcess.variable] != nil else { return }
        var type: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        let isSocket = getsockopt(DecoderProcess.socketNumber, SOL_SOCKET, SO_TYPE, &type, &size) == 0
        guard isSocket, type == Int32(SOCK_SEQPACKET.rawValue) else { return }
        // What reads files when it is first used is used before the wall stands, and once for all helpers.
        _ = (DecodeOptions.cores, PixelRegions.pageSize, codecs.decoderNames)
        ForkServer.serve()
        guard let memory = try? SharedMemory(DecoderProcess.memoryNumber) else { _exit(1) }
        close(DecoderProcess.memoryNumber)
        DecoderLoop(codecs, memory).run()
    }
}

extension DataCache {
    /// The options of a decode beside the requests of image caches, which is as isolated as the pictures that they make
    /// of these bytes.
    package var decodeOptions: DecodeOptions { note.withLock { $0 as? DecodeOptions } ?? DecodeOptions() }

    /// Has others that decode these bytes do so as isolated as these options say. Of several, the strictest count.
    package func isolateOthers(_ options: DecodeOptions) {
        note.withLock { note in
            let known = (note as? DecodeOptions)?.isolation
            if known.map({ $0.strictness < options.isolation.strictness }) ?? true { note = options }
        }
    }
}

extension Isolation {
    fileprivate var strictness: Int {
        switch self {
        case .off: 0
        case .automatic: 1
        case .preferred: 2
        case .required: 3
        }
    }
}

extension ImageCache.Configuration {
    var decodeOptions: DecodeOptions {
        var options = DecodeOptions()
        (options.isolation, options.decoderProgram, options.threads) = (isolation, decoderProgram, decodingThreads)
        return options
    }

    /// Blocks the thread until the first helper's wall stands.
    var isolationPosture: IsolationPosture {
        do throws(DipperError) {
            let pool = try DecoderPool.of(decoderProgram)
            let greeting = try pool.greeting(decodeOptions)
            let others = codecs.decoderNames.filter { !greeting.decoders.contains($0) }
            return IsolationPosture(
                program: pool.program, missing: greeting.missing + others.map { "the decoder \($0)" })
        } catch {
            return IsolationPosture(program: nil, missing: ["a program that decodes: \(error.detail ?? "\(error)")"])
        }
    }
}

/// The work of a helper: it decodes behind the wall, one request after the other.
private final class DecoderLoop: Sendable {
    private struct Animation {
        let number: Int
        let frames: any FrameDecoder
        /// In bytes, with the encoded file.
        let memory: Int
        var position = 0
    }

    /// The animations that are kept for their next frames, those used last at the end.
    private static let mostAnimations = 64

    private let codecs: CodecRegistry
    private let memory: SharedMemory
    private let socket = DecoderProcess.socketNumber
    private let isCancelled = Atomic(false)
    /// The animations that the program has closed during a decode.
    private let closed = Mutex<[Int]>([])

    init(_ codecs: CodecRegistry, _ memory: consuming SharedMemory) {
        self.codecs = codecs
        self.memory = memory
    }

    func run() -> Never {
        let wall = dipper_build_wall(
            DecoderProcess.lifelineNumber,
            { loop in
                guard let loop else { return }
                Unmanaged<DecoderLoop>.fromOpaque(loop).takeUnretainedValue().codecs.prepareForIsolation()
            }, Unmanaged.passUnretained(self).toOpaque())
        guard DecoderGreeting.packet(wall, codecs.decoderNames).send(to: socket) else { _exit(1) }
        var animations: [Animation] = []
        while let (packet, files) = next() {
            guard let request = DecoderRequest(packet) else { _exit(1) }
            switch request.operation {
            case .close: closed.withLock { $0.append(request.session) }
            // The work has ended already.
            case .cancel: break
            case .decode, .frame:
                isCancelled.store(false, ordering: .relaxed)
                let reply: DecoderReply
                do throws(DipperError) {
                    reply = try answer(request, files, &animations)
                } catch {
                    reply = .failure(error)
                }
                for file in files where file >= 0 { close(file) }
                guard reply.packet.send(to: socket) else { _exit(1) }
            }
            let gone = closed.withLock { exchange(&$0, with: []) }
            animations.removeAll { gone.contains($0.number) }
        }
        _exit(0)
    }

    /// Waits for a packet. A helper without work gives its memory back.
    private func next() -> (DecoderPacket, files: [Int32])? {
        var state = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        if poll(&state, 1, 1_000) == 0 {
            PixelMemory.trim()
            malloc_trim(0)
        }
        var files: [Int32] = [-1, -1, -1]
        return DecoderPacket(from: socket, &files, waits: true).map { ($0, files) }
    }

    /// Takes in what the program says during a decode.
    private func checkCancelled() -> Bool {
        var files: [Int32] = [-1, -1, -1]
        while let packet = DecoderPacket(from: socket, &files, waits: false), let request = DecoderRequest(packet) {
            if request.operation == .cancel { isCancelled.store(true, ordering: .relaxed) }
            if request.operation == .close { closed.withLock { $0.append(request.session) } }
        }
        return isCancelled.load(ordering: .relaxed)
    }

    private func answer(
        _ request: DecoderRequest, _ files: [Int32], _ animations: inout [Animation]
    ) throws(DipperError) -> DecoderReply {
        var options = request.options
        options.isCancelled = { self.checkCancelled() }
        guard let decoder = codecs.decoder(named: request.decoder) else {
            throw .unsupportedFormat.with(detail: "there is no decoder \(request.decoder)")
        }
        // Files come in this order, but not if the shared memory is enough.
        let hasPixels = request.mostBytes > SharedMemory.part
        let (pixels, encoded) = hasPixels ? (files[0], files[1]) : (-1, files[0])
        if request.operation == .decode {
            let data = try file(encoded, request.fileSize)
            if !animations.isEmpty { makeRoom(memory(of: data, decoder, options), options.limits, &animations) }
            return try picture(decoder.decode(data, options), request, in: pixels)
        }
        var animation: Animation
        if let index = animations.firstIndex(where: { $0.number == request.session }) {
            animation = animations.remove(at: index)
        } else {
            guard request.bringsFile else { return .needsFile }
            let data = try file(encoded, request.fileSize)
            let memory = memory(of: data, decoder, options)
            makeRoom(memory, options.limits, &animations)
            guard let frames = try decoder.frames(of: data, options) else { return .end }
            animation = Animation(number: request.session, frames: frames, memory: memory)
        }
        // At its end, and after an error, the decoder stays where it is.
        defer { animations.append(animation) }
        if animation.position > request.frame {
            try animation.frames.rewind()
            animation.position = 0
        }
        while let frame = try animation.frames.next() {
            animation.position += 1
            if animation.position > request.frame {
                return try picture(frame.image, request, in: pixels, duration: frame.duration)
            }
        }
        return .end
    }

    private func memory(of data: Data, _ decoder: any ImageDecoder, _ options: DecodeOptions) -> Int {
        let memory = (try? decoder.memory(of: data, options)) ?? 0
        return memory.addingReportingOverflow(data.count).partialValue
    }

    /// Forgets animations, the one that was not used for longest first, until they and the next picture together take no
    /// more than one picture may.
    private func makeRoom(_ wanted: Int, _ limits: DecodeLimits, _ animations: inout [Animation]) {
        var room = limits.bytes.subtractingReportingOverflow(wanted).partialValue
        let kept = animations.reversed().prefix(Self.mostAnimations - 1).prefix { animation in
            room -= animation.memory
            return room >= 0
        }
        animations.removeFirst(animations.count - kept.count)
    }

    /// Returns the encoded file: a copy from the shared memory, which the next request changes, or mapped if the program has
    /// sealed one.
    private func file(_ file: Int32, _ size: Int) throws(DipperError) -> Data {
        guard size > 0 else { return Data() }
        if size <= SharedMemory.part { return Data(bytes: memory.file, count: size) }
        guard let start = mmap(nil, size, PROT_READ, MAP_PRIVATE, file, 0), start != MAP_FAILED else {
            throw PixelMemory.noMemory
        }
        return Data(bytesNoCopy: start, count: size, deallocator: .unmap)
    }

    private func picture(
        _ image: Image, _ request: DecoderRequest, in file: Int32, duration: Duration = .zero
    ) throws(DipperError) -> DecoderReply {
        guard try image.size.byteCount() <= request.mostBytes else {
            throw .undecodable.with(detail: "\(image.size) pixels, which is more than was asked for")
        }
        let length = image.width * 4
        let isShared = length * image.height <= SharedMemory.part
        let isDense = image.rowStride == length
        for y in 0..<(isDense ? 1 : image.height) {
            let rows = UnsafeRawBufferPointer(start: image.row(y), count: isDense ? length * image.height : length)
            if isShared {
                UnsafeMutableRawBufferPointer(start: memory.pixels + y * length, count: rows.count).copyMemory(
                    from: rows)
            } else if !SharedFile.write(rows, at: y * length, to: file) {
                throw PixelMemory.noMemory
            }
        }
        return .picture(
            DecoderReply.Picture(
                size: image.size, isOpaque: image.isOpaque, frameCount: image.animation?.frameCount ?? 1,
                loopCount: image.animation?.loopCount ?? 0, duration: duration))
    }
}
