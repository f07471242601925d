import CZlib
import FaultServer
import Foundation

/// The files on the server: the tests' pictures, and small files that decode to large ones.
enum Pictures {
    static let names = ["/large.jpg", "/420.jpg", "/cmyk.jpg", "/large-progressive.jpg"]
    /// A PNG with 4 million pixels, a PNG that declares 3.6 billion, and a truncated JPEG.
    static let bombs = ["/bomb.png", "/huge.png", "/cut.jpg"]
    /// 64 MiB of zeros, served with gzip encoding.
    static let gzipBomb = "/zeros"

    static func files() -> [String: Data] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../DipperTests/Pictures/jpeg")
        var files: [String: Data] = [:]
        for name in names { files[name] = (try? Data(contentsOf: folder.appendingPathComponent(name))) ?? Data() }
        files["/cut.jpg"] = files["/large.jpg", default: Data()].prefix(5_000)
        files["/bomb.png"] = png(width: 2_000, height: 2_000)
        files["/huge.png"] = png(width: 60_000, height: 60_000, rows: 100)
        files[gzipBomb] = Data(GzipBomb.zeros(64 << 20))
        return files
    }

    private static func png(width: Int, height: Int, rows: Int? = nil) -> Data {
        var file = Data([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
        file += chunk("IHDR", bigEndian(width) + bigEndian(height) + [8, 0, 0, 0, 0])
        file += chunk("IDAT", zlib((rows ?? height) * (width + 1)))
        file += chunk("IEND", [])
        return file
    }

    /// Compresses a number of zeros as zlib (RFC 1950).
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
