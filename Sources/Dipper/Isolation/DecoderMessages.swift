import Foundation
import ProcessShims

/// A packet between the program and a helper: sixteen numbers of 64 bits, as this machine writes them, and then a text.
struct DecoderPacket: Hashable {
    /// In bytes. The text of a longer packet is cut.
    static let longest = 8 << 10
    private static let count = 16

    let numbers: [Int]
    let text: String

    /// The numbers that are not given are 0.
    init(_ numbers: [Int], text: String = "") {
        self.numbers = Array((numbers + Array(repeating: 0, count: Self.count)).prefix(Self.count))
        self.text = text
    }

    /// Reads a packet that may be hostile; `nil` if it is too short.
    init?(_ bytes: some Collection<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count >= Self.count * 8 else { return nil }
        let numbers = bytes.withUnsafeBytes { bytes in
            (0..<Self.count).map { bytes.loadUnaligned(fromByteOffset: $0 * 8, as: Int.self) }
        }
        self.init(numbers, text: String(decoding: bytes.dropFirst(Self.count * 8), as: UTF8.self))
    }

    var bytes: [UInt8] {
        let bytes = numbers.withUnsafeBytes { Array($0) }
        return bytes + Array(text.utf8).prefix(Self.longest - bytes.count)
    }

    /// Takes a packet out of a socket; `nil` without one, also if the other end is closed.
    /// - Parameter files: three places for its descriptors. Without them, no descriptor is taken.
    init?(from socket: Int32, _ files: UnsafeMutablePointer<Int32>? = nil, waits: Bool) {
        var bytes = [UInt8](repeating: 0, count: Self.longest)
        let length = dipper_receive(socket, &bytes, bytes.count, files, waits ? 1 : 0)
        guard length > 0 else { return nil }
        self.init(bytes.prefix(length))
    }

    /// Returns whether the packet was sent.
    func send(to socket: Int32, _ files: [Int32] = []) -> Bool {
        let bytes = bytes
        return dipper_send(socket, bytes, bytes.count, files, Int32(files.count)) == 0
    }
}

/// A message of the program to a helper.
struct DecoderRequest {
    enum Operation: Int {
        /// Decode a picture. What is larger than its part of the shared memory comes as a file: first an empty one for the
        /// pixels, then the encoded one.
        case decode = 1
        /// Decode one frame of an animation, as `decode`; the encoded file may be missing if the helper has it already.
        case frame
        /// Forget an animation. No answer.
        case close
        /// End the work under way. No other answer than that of the work.
        case cancel
    }

    let operation: Operation
    /// The number of an animation.
    var session = 0
    /// The number of a frame.
    var frame = 0
    /// The length of the encoded file, in bytes.
    var fileSize = 0
    /// The most bytes that the pixels of the answer may have; see ``DecodeOptions/mostBytes(ofStored:)``.
    var mostBytes = 0
    /// Whether the encoded file comes with the request.
    var bringsFile = false
    /// The name of the decoder, which the program has chosen by the file's first bytes.
    var decoder = ""
    var options = DecodeOptions()

    init(_ operation: Operation) { self.operation = operation }

    init?(_ packet: DecoderPacket) {
        let numbers = packet.numbers
        guard let operation = Operation(rawValue: numbers[0]) else { return nil }
        self.operation = operation
        (session, frame, fileSize) = (numbers[1], numbers[2], numbers[3])
        let modes = TargetSize.Mode.allCases
        if modes.indices.contains(numbers[4]) {
            options.target = TargetSize(
                width: numbers[5], height: numbers[6], modes[numbers[4]], allowsUpscaling: numbers[7] == 1)
        }
        options.scale = Double(bitPattern: UInt64(bitPattern: Int64(numbers[8])))
        (options.firstFrameOnly, options.allowsPartial) = (numbers[9] == 1, numbers[10] == 1)
        options.limits.pixels = numbers[11]
        options.limits.frames = numbers[12]
        options.limits.bytes = numbers[13]
        (mostBytes, bringsFile, decoder) = (numbers[14], numbers[15] == 1, packet.text)
        // Behind the wall there are no other threads.
        options.threads = 1
    }

    var packet: DecoderPacket {
        let (target, limits) = (options.target, options.limits)
        let mode = target.flatMap { TargetSize.Mode.allCases.firstIndex(of: $0.mode) } ?? -1
        return DecoderPacket(
            [
                operation.rawValue, session, frame, fileSize, mode, target?.size.width ?? 0, target?.size.height ?? 0,
                target?.allowsUpscaling == true ? 1 : 0, Int(Int64(bitPattern: options.scale.bitPattern)),
                options.firstFrameOnly ? 1 : 0, options.allowsPartial ? 1 : 0, limits.pixels, limits.frames,
                limits.bytes, mostBytes, bringsFile ? 1 : 0,
            ], text: decoder)
    }
}

extension DecodeOptions {
    /// The most bytes of pixels that a helper may answer with: those of the size that is asked for, with one more row and
    /// column for rounding. Without a target that is the size that the header states; `limits.bytes` always holds.
    /// - Parameter stored: the size by the header; `nil` if this program cannot read it.
    func mostBytes(ofStored stored: PixelSize?) -> Int {
        var size = stored.map { target?.size(for: $0) ?? $0 }
        // What covers a target may have any length.
        if size == nil, target?.mode != .fill { size = target?.size }
        guard let size, let bytes = try? PixelSize(width: size.width + 1, height: size.height + 1).byteCount() else {
            return limits.bytes
        }
        return min(limits.bytes, bytes)
    }
}

/// The answer of a helper, which the program does not trust.
enum DecoderReply {
    /// The rows have no gaps.
    struct Picture: Equatable {
        var size: PixelSize
        var isOpaque: Bool
        var frameCount = 1
        var loopCount = 0
        var duration = Duration.zero
    }

    /// The longest time of a frame, in nanoseconds.
    private static let longest = 1_000_000_000_000_000

    case picture(Picture)
    /// The animation has no such frame.
    case end
    /// The helper needs the encoded file.
    case needsFile
    case failure(DipperError)

    private static let errors: [DipperError] = [
        .undecodable, .imageTooLarge, .cancelled, .unsupportedFormat, .processingFailed, .unreadable,
    ]

    /// Reads a hostile packet. `nil` if the numbers cannot be true.
    init?(_ packet: DecoderPacket, _ limits: DecodeLimits) {
        let numbers = packet.numbers
        switch numbers[0] {
        case 1:
            let size = PixelSize(width: numbers[1], height: numbers[2])
            guard !size.isEmpty, let count = try? size.byteCount(), count <= limits.bytes, count / 4 <= limits.pixels,
                (1...max(1, limits.frames)).contains(numbers[4]), (0...Int(Int32.max)).contains(numbers[5]),
                (0...Self.longest).contains(numbers[6])
            else { return nil }
            self = .picture(
                Picture(
                    size: size, isOpaque: numbers[3] == 1, frameCount: numbers[4], loopCount: numbers[5],
                    duration: .nanoseconds(numbers[6])))
        case 2: self = .end
        case 3: self = .needsFile
        case let code:
            guard code >= 4, Self.errors.indices.contains(code - 4) else { return nil }
            let (error, text) = (Self.errors[code - 4], packet.text.prefix(300).visible)
            self = .failure(text.isEmpty ? error : error.with(detail: text))
        }
    }

    var packet: DecoderPacket {
        switch self {
        case .picture(let picture):
            let (seconds, rest) = min(picture.duration, .nanoseconds(Self.longest)).components
            return DecoderPacket([
                1, picture.size.width, picture.size.height, picture.isOpaque ? 1 : 0, picture.frameCount,
                min(picture.loopCount, Int(Int32.max)), Int(seconds * 1_000_000_000 + rest / 1_000_000_000),
            ])
        case .end: return DecoderPacket([2])
        case .needsFile: return DecoderPacket([3])
        case .failure(let error):
            let index = Self.errors.firstIndex(of: error)
            return DecoderPacket([4 + (index ?? 0)], text: error.detail ?? (index == nil ? error.shortDescription : ""))
        }
    }
}

/// The first message of a helper, when its wall stands.
struct DecoderGreeting: Equatable {
    /// Changes with the messages.
    static let version = 5

    /// The names of the decoders.
    let decoders: Set<String>
    /// The parts of the wall that are missing, with the reasons; empty if it is complete.
    let missing: [String]

    /// Whether another helper promises as much.
    func isKept(by other: DecoderGreeting) -> Bool {
        decoders.isSubset(of: other.decoders) && Set(other.missing).isSubset(of: missing)
    }

    private static let parts = [
        "no new privileges", "limits on processes, descriptors and memory", "no files (Landlock)",
        "few system calls (seccomp)",
    ]

    /// `nil` if the program speaks another version.
    init?(_ packet: DecoderPacket) {
        guard packet.numbers[0] == Self.version else { return nil }
        missing = zip(Self.parts, packet.numbers.dropFirst()).compactMap { part, error in
            error == 0 ? nil : "\(part): \(String(cString: strerror(Int32(truncatingIfNeeded: error))))"
        }
        decoders = Set(packet.text.split(separator: "\n").map(\.visible))
    }

    static func packet(_ wall: dipper_wall, _ decoders: [String]) -> DecoderPacket {
        DecoderPacket(
            [version, Int(wall.privileges), Int(wall.limits), Int(wall.files), Int(wall.calls)],
            text: decoders.joined(separator: "\n"))
    }
}
