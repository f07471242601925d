import Dipper
import Foundation
import HostileCalls

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
}
