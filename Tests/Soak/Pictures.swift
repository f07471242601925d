import CZlib
import Foundation

/// What the server has: the tests' pictures, and files that are small and become large.
enum Pictures {
    static let names = ["/large.jpg", "/420.jpg", "/cmyk.jpg", "/large-progressive.jpg"]
    /// A PNG of 4 million pixels, one that says it has 3.6 thousand million, a JPEG that ends too early.
    static let bombs = ["/bomb.png", "/huge.png", "/cut.jpg"]
    /// To be served as gzip: 64 MiB of zeros.
    static let gzipBomb = "/zeros"

    static func files() -> [String: Data] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../DipperTests/Pictures/jpeg")
        var files: [String: Data] = [:]
        for name in names { files[name] = (try? Data(contentsOf: folder.appendingPathComponent(name))) ?? Data() }
        files["/cut.jpg"] = files["/large.jpg", default: Data()].prefix(5_000)
        files["/bomb.png"] = png(width: 2_000, height: 2_000)
        files["/huge.png"] = png(width: 60_000, height: 60_000, rows: 100)
        files[gzipBomb] = gzip(64 << 20)
        return files
    }

    /// A black picture, 8 bits of grey a pixel.
    private static func png(width: Int, height: Int, rows: Int? = nil) -> Data {
        var file = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
        file += chunk("IHDR", bigEndian(width) + bigEndian(height) + [8, 0, 0, 0, 0])
        file += chunk("IDAT", zlib((rows ?? height) * (width + 1)))
        file += chunk("IEND", [])
        return file
    }

    /// So many zeros (RFC 1952). The checksum is left out: who has come to it has taken the whole.
    private static func gzip(_ count: Int) -> Data {
        Data(
            [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255] + zlib(count).dropFirst(2).dropLast(4)
                + [UInt8](repeating: 0, count: 8))
    }

    /// So many zeros (RFC 1950).
    private static func zlib(_ count: Int) -> [UInt8] {
        var size = compressBound(uLong(count))
        var bytes = [UInt8](repeating: 0, count: Int(size))
        compress2(&bytes, &size, [UInt8](repeating: 0, count: count), uLong(count), 9)
        return Array(bytes.prefix(Int(size)))
    }

    private static func chunk(_ name: String, _ bytes: [UInt8]) -> [UInt8] {
        let covered = Array(name.utf8) + bytes
        return bigEndian(bytes.count) + covered + bigEndian(Int(crc32(0, covered, uInt(covered.count))))
    }

    private static func bigEndian(_ number: Int) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}
