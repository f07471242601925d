import CZlib
import Dipper
import Foundation
import Testing

/// A PNG file split into chunks, which tests change and reassemble with right checksums.
struct PNGFile {
    var chunks: [(kind: String, body: [UInt8])]

    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

    init(_ data: Data) {
        let bytes = [UInt8](data)
        chunks = []
        var offset = 8
        while offset + 12 <= bytes.count {
            let length = bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
            chunks.append(
                (
                    String(decoding: bytes[offset + 4..<offset + 8], as: UTF8.self),
                    Array(bytes[offset + 8..<offset + 8 + length])
                ))
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
        let header = Self.number(UInt32(size.width)) + Self.number(UInt32(size.height)) + [8, 6, 0, 0, 0]
        chunks = [("IHDR", header), ("IDAT", Array(body.prefix(Int(count)))), ("IEND", [])]
    }

    var data: Data {
        var bytes = Self.signature
        for chunk in chunks {
            let checked = Array(chunk.kind.utf8) + chunk.body
            let checksum = UInt32(crc32(0, checked, uInt(checked.count)))
            bytes += Self.number(UInt32(chunk.body.count)) + checked + Self.number(checksum)
        }
        return Data(bytes)
    }

    /// Returns the file with another size in its header, and no other change.
    func claiming(width: UInt32, height: UInt32) -> Data {
        var copy = self
        copy.chunks[0].body.replaceSubrange(0..<8, with: Self.number(width) + Self.number(height))
        return copy.data
    }

    static func number(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }
}
