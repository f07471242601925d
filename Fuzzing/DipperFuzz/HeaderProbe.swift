import Dipper
import Foundation

/// What holds of every header.
enum HeaderProbe {
    static func run(_ data: Data) {
        check(data)
        // A file that is still coming.
        check(data.prefix(data.count / 2))
        checkPieces(data)
    }

    /// What is found in a file does not depend on the pieces in which it comes.
    private static func checkPieces(_ data: Data) {
        var (whole, inPieces) = (ProgressiveJPEG(), ProgressiveJPEG())
        _ = whole.preview(in: data)
        let size = 1 + data.count % 13
        for end in stride(from: size, to: data.count + size, by: size) { _ = inPieces.preview(in: data.prefix(end)) }
        require(
            whole.isProgressive == inPieces.isProgressive && whole.completeScans == inPieces.completeScans
                && whole.usableLength == inPieces.usableLength, "the same scans in pieces of \(size) bytes")
        let slice = (Data([0]) + data + Data([0])).dropFirst().dropLast()
        require((try? ImageInfo(slice)) == (try? ImageInfo(data)), "the same header inside of other bytes")
    }

    private static func check(_ data: Data) {
        let format = ImageFormat(sniffing: data)
        do throws(DipperError) {
            let info = try ImageInfo(data)
            require(info.format == format, "the header is of the format that was told")
            if let size = info.size { require(size.width > 0 && size.height > 0, "a picture has pixels: \(size)") }
            require(info.frameCount >= 1, "there is a frame")
            require(info.loopCount >= 0, "loops are counted from 0")
        } catch {
            require(error == .undecodable || error == .unsupportedFormat, "an error of headers, not \(error)")
            require((error == .unsupportedFormat) == (format == nil), "known formats are read: \(error)")
        }
    }
}
