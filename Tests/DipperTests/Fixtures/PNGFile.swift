import CZlib
import Dipper
import Foundation
import Testing

/// A PNG file split into chunks, which tests change and reassemble with right checksums.
struct PNGFile {
    var chunks: [(kind: String, body: [UInt8])]

    init(_ data: Data) {
        let bytes = [UInt8](data)
        chunks = []
        var offset = 8
        while offset + 12 <= bytes.count {
            let length = bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
            let kind = String(decoding: bytes[offset + 4..<offset + 8], as: UTF8.self)
            chunks.append((kind, Array(bytes[offset + 8..<offset + 8 + length])))
            offset += 12 + length
        }
    }

    /// Writes straight red, green, blue and alpha, without padding between rows.
    init(_ size: PixelSize, straight pixels: [UInt8]) throws {
        let stride = size.width * 4
        let rows = (0..<size.height).flatMap { [0] + pixels[$0 * stride..<($0 + 1) * stride] }
        var count = compressBound(uLong(rows.count))
        var body = [UInt8](repeating: 0, count: Int(count))
        try #require(compress(&body, &count, rows, uLong(rows.count)) == Z_OK)
        let header = HeaderBytes.big32(size.width) + HeaderBytes.big32(size.height) + [8, 6, 0, 0, 0]
        chunks = [("IHDR", header), ("IDAT", Array(body.prefix(Int(count)))), ("IEND", [])]
    }

    var data: Data {
        Data(HeaderBytes.pngSignature + chunks.flatMap { HeaderBytes.chunk($0.kind, $0.body) })
    }

    /// Returns the file with another size in its header, and no other change.
    func claiming(width: UInt32, height: UInt32) -> Data {
        var copy = self
        copy.chunks[0].body.replaceSubrange(0..<8, with: [width, height].flatMap { HeaderBytes.big32(Int($0)) })
        return copy.data
    }
}
