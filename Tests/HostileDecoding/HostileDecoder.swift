import Dipper
import Foundation
import HostileCalls
import Synchronization

/// Decodes files of one line, `HOSTILE attack`, by carrying the attack out. A word after it makes files differ, and the
/// process in it is one that the attacks aim at: `HOSTILE signal 1234`.
package struct HostileDecoder: ImageDecoder {
    private static let start = "HOSTILE "
    package let format = ImageFormat(rawValue: "hostile")

    package init() {}

    package func recognizes(_ start: Data) -> Bool { start.starts(with: Self.start.utf8) }

    package func info(of data: Data) throws(DipperError) -> ImageInfo {
        ImageInfo(format: format, size: PixelSize(width: 1, height: 1))
    }

    /// Throws an error that says what was possible; its detail is `refused` if nothing was.
    package func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        // Not in the program that tests.
        guard ProcessInfo.processInfo.environment["DIPPER_DECODER"] != nil else { throw .unsupportedFormat }
        let words = String(decoding: data, as: UTF8.self).split(separator: " ").map(String.init)
        let (attack, other) = (words[1], words.count > 2 ? pid_t(words[2]) ?? 1 : 1)
        switch attack {
        case "none": break
        case "crash": hostile_crash()
        case "abort": abort()
        case "exit": exit(0)
        case "spin": while true {}
        case "wait":
            // A decoder that is not hostile, only slow.
            while true { try options.checkCancelled() }
        case "memory":
            let most = options.limits.bytes + 4 << 30
            let taken = hostile_memory(most)
            throw .undecodable.with(detail: taken < most ? "refused" : "\(taken) bytes")
        case "keep": _ = hostile_keep_files()
        case "fill": hostile_fill_files(64 << 20)
        case "frames": return try Self.moving(of: 100)
        case "large", "keepLarge":
            if attack == "keepLarge" { _ = hostile_keep_files() }
            let pixels = [UInt8](repeating: 0, count: 4 << 20)
            guard let image = Image(size: PixelSize(width: 1 << 10, height: 1 << 10), premultiplied: pixels) else {
                throw .imageTooLarge
            }
            return image
        default:
            let breach = hostile_breach(attack, other).map { String(cString: $0) }
            throw .undecodable.with(detail: breach ?? "refused")
        }
        guard let image = Image(size: PixelSize(width: 1, height: 1), premultiplied: [1, 2, 3, 255]) else {
            throw .undecodable
        }
        return image
    }

    // MARK: Frames

    /// For `HOSTILE frames 20`, where each animation takes 20 MB of addresses.
    package func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int { 4 + Self.megabytes(data) }

    private static func megabytes(_ data: Data) -> Int {
        let words = String(decoding: data, as: UTF8.self).split(separator: " ")
        return words.count > 2 && words[1] == "frames" ? (Int(words[2]) ?? 0) << 20 : 0
    }

    package func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
        let begun = Self.begun.withLock { begun in
            begun[data, default: 0] += 1
            return begun[data, default: 0]
        }
        guard let frames = HostileFrames(begun, Self.megabytes(data)) else { throw .imageTooLarge }
        return frames
    }

    private static let begun = Mutex<[Data: Int]>([:])

    private static func moving(of count: Int) throws(DipperError) -> Image {
        let frames = (0..<count).compactMap { index in
            Image(size: PixelSize(width: 1, height: 1), premultiplied: [UInt8(index), 2, 3, 255])
        }
        let file = try PNGEncoder().encode(
            frames.map { AnimationFrame(image: $0, duration: .milliseconds(10)) }, loopCount: 0, EncodeOptions())
        return try Image(data: file)
    }
}

/// Frames of one pixel that say which process makes them, and how often it has begun with the file.
private final class HostileFrames: FrameDecoder {
    private let begun: Int
    private let (memory, length): (UnsafeMutableRawPointer?, Int)

    init?(_ begun: Int, _ length: Int) {
        (self.begun, self.length) = (begun, length)
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        memory = length == 0 ? nil : mmap(nil, length, PROT_READ | PROT_WRITE, flags, -1, 0)
        if memory == MAP_FAILED { return nil }
    }

    deinit { if let memory { munmap(memory, length) } }

    func next() throws(DipperError) -> AnimationFrame? {
        let pixel = [UInt8(getpid() & 0xFF), UInt8(getpid() >> 8 & 0xFF), UInt8(min(begun, 255)), 255]
        return Image(size: PixelSize(width: 1, height: 1), premultiplied: pixel).map {
            AnimationFrame(image: $0, duration: .milliseconds(10))
        }
    }

    func rewind() {}
}

/// A decoder whose type is private: it decodes the files of ``HostileDecoder`` without harm.
package let plainDecoder: any ImageDecoder = PlainDecoder()

private struct PlainDecoder: ImageDecoder {
    let format = ImageFormat(rawValue: "plain")

    func recognizes(_ start: Data) -> Bool { HostileDecoder().recognizes(start) }
    func info(of data: Data) throws(DipperError) -> ImageInfo { try HostileDecoder().info(of: data) }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        guard ProcessInfo.processInfo.environment["DIPPER_DECODER"] != nil else { throw .unsupportedFormat }
        guard let image = Image(size: PixelSize(width: 1, height: 1), premultiplied: [9, 9, 9, 255]) else {
            throw .undecodable
        }
        return image
    }
}
