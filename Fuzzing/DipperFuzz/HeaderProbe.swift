import Dipper
import Foundation

/// What holds of every header.
enum HeaderProbe {
    static func run(_ data: Data) {
        check(data)
        // A file that is still coming.
        check(data.prefix(data.count / 2))
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
