import CZlib
import Dipper
import DipperTesting
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
        files["/bomb.png"] = (try? Image.filled(with: .black, 2_000, 2_000).png) ?? Data()
        files["/huge.png"] = huge
        files[gzipBomb] = Data(GzipBomb.zeros(64 << 20))
        return files
    }

    /// A small PNG whose header says that it has 60,000 × 60,000 pixels.
    private static var huge: Data {
        var file = [UInt8]((try? Image.sample().png) ?? Data(count: 33))
        // The header is 13 bytes behind its name: width, height and five more, with the CRC of name and header.
        file.replaceSubrange(16..<24, with: bigEndian(60_000) + bigEndian(60_000))
        file.replaceSubrange(29..<33, with: bigEndian(Int(crc32(0, Array(file[12..<29]), 17))))
        return Data(file)
    }

    private static func bigEndian(_ number: Int) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}
