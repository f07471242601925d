import Foundation

/// The formats that are themselves compressed. Compressing them again takes time and saves nothing.
enum CompressedFormats {
    /// Returns whether a body has such a format, by its first bytes or by its `Content-Type`.
    static func contain(_ body: Data, type: String?) -> Bool {
        if let type, contain(type: type) { return true }
        return body.prefix(12).withUnsafeBytes { start in
            beginnings.contains { start.starts(with: $0) }
                // WebP is one kind of RIFF.
                || (start.starts(with: "RIFF".utf8) && start.dropFirst(8).starts(with: "WEBP".utf8))
                // ISO base media: MP4, AVIF, HEIC.
                || start.dropFirst(4).starts(with: "ftyp".utf8)
        }
    }

    private static func contain(type: String) -> Bool {
        let name = type.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        if loose.contains(name) { return false }
        return types.contains(name) || ["image/", "video/", "audio/"].contains { name.hasPrefix($0) }
            // Office documents are ZIP archives.
            || name.hasPrefix("application/vnd.openxmlformats-") || name.hasPrefix("application/vnd.oasis.")
    }

    /// The types of pictures and sounds that are not compressed, or may not be.
    private static let loose: Set<String> = [
        "image/svg+xml", "image/bmp", "image/x-ms-bmp", "image/x-icon", "image/vnd.microsoft.icon", "image/tiff",
        "audio/wav", "audio/x-wav", "audio/vnd.wave", "audio/midi",
    ]

    private static let types: Set<String> = [
        "application/pdf", "application/zip", "application/gzip", "application/x-gzip", "application/zstd",
        "application/x-brotli", "application/x-bzip2", "application/x-xz", "application/x-7z-compressed",
        "application/vnd.rar", "application/java-archive", "application/epub+zip", "application/font-woff",
        "application/vnd.android.package-archive", "font/woff", "font/woff2",
    ]

    private static let beginnings: [[UInt8]] = [
        [0xFF, 0xD8, 0xFF],  // JPEG
        [0x89, 0x50, 0x4E, 0x47],  // PNG
        Array("GIF8".utf8), Array("%PDF-".utf8), Array("wOFF".utf8), Array("wOF2".utf8), Array("OggS".utf8),
        Array("fLaC".utf8), Array("ID3".utf8), Array("BZh".utf8), Array("Rar!".utf8),
        [0xFF, 0x0A], [0x00, 0x00, 0x00, 0x0C, 0x4A, 0x58, 0x4C, 0x20],  // JPEG XL
        [0x50, 0x4B, 0x03, 0x04],  // ZIP
        [0x1F, 0x8B],  // gzip
        [0x28, 0xB5, 0x2F, 0xFD],  // zstd
        [0xFD, 0x37, 0x7A, 0x58, 0x5A],  // xz
        [0x37, 0x7A, 0xBC, 0xAF],  // 7z
        [0x1A, 0x45, 0xDF, 0xA3],  // Matroska, WebM
    ]
}
