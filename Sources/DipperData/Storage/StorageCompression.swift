import CZlib
import CZstd
import Foundation

/// The compression of bodies on disk. A cache can read entries of any compression.
public struct StorageCompression: Sendable, Hashable {
    /// The numbers in the record format.
    enum Coding: UInt32 {
        case identity = 0
        case gzip = 1
        case zstd = 2
    }

    let coding: Coding

    /// No compression: bodies are stored as they came, so that other programs can open the files of larger ones.
    public static let off = StorageCompression(coding: .identity)
    /// Compression by gzip (RFC 1952) of bodies of at least 1 KiB, unless the first bytes or the `Content-Type` show
    /// that they are compressed already, and only if it saves an eighth.
    public static let gzip = StorageCompression(coding: .gzip)
    /// Compression by Zstandard (RFC 8878) of the same bodies as ``gzip``: about as small, in a fraction of the time.
    /// Versions of the library without Zstandard take such entries for damaged and remove them.
    public static let zstd = StorageCompression(coding: .zstd)

    private static let smallestBody = 1_024

    func compressed(_ value: StoredData) -> Data? {
        let body = value.data
        guard coding != .identity, body.count >= Self.smallestBody,
            !CompressedFormats.contain(body, type: value.info.headers["Content-Type"])
        else { return nil }
        let limit = body.count - body.count / 8
        return coding == .zstd ? Zstd.compress(body, atMost: limit) : Gzip.compress(body, atMost: limit)
    }
}

/// Formats that compressing again does not make smaller.
private enum CompressedFormats {
    static func contain(_ body: Data, type: String?) -> Bool {
        if let type, contain(type: type) { return true }
        return body.prefix(12).withUnsafeBytes { start in
            beginnings.contains { start.starts(with: $0) }
                || (start.starts(with: "RIFF".utf8) && start.dropFirst(8).starts(with: "WEBP".utf8))
                // ISO base media: MP4, AVIF, HEIC.
                || start.dropFirst(4).starts(with: "ftyp".utf8)
        }
    }

    private static func contain(type: String) -> Bool {
        let name = type.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        if loose.contains(name) { return false }
        return types.contains(name) || ["image/", "video/", "audio/"].contains { name.hasPrefix($0) }
            || name.hasPrefix("application/vnd.openxmlformats-") || name.hasPrefix("application/vnd.oasis.")
    }

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

enum Gzip {
    private static let windowBits: Int32 = 15 + 16

    /// `nil` if the compressed body does not fit into `limit` bytes.
    static func compress(_ body: Data, atMost limit: Int) -> Data? {
        body.withUnsafeBytes { input in
            transform(input, room: limit) { stream in
                deflateInit2_(
                    stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                    Int32(MemoryLayout<z_stream>.size))
            } run: { stream in
                deflate(stream, Z_FINISH)
            } end: { stream in
                deflateEnd(stream)
            }
        }
    }

    /// `nil` if the bytes are not one complete stream of `count` bytes. Allocates nothing if it is too short for them.
    static func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) -> Data? {
        // Deflate makes at most 1,032 bytes of one: two bits can stand for 258 bytes.
        guard count >= 0, count / 1_032 <= bytes.count else { return nil }
        let body = transform(bytes, room: count) { stream in
            inflateInit2_(stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        } run: { stream in
            inflate(stream, Z_FINISH)
        } end: { stream in
            inflateEnd(stream)
        }
        return body?.count == count ? body : nil
    }

    /// `nil` unless the stream ends with the input, within `room` bytes. zlib counts the bytes of a call in 32 bits.
    private static func transform(
        _ input: UnsafeRawBufferPointer, room: Int, begin: (z_streamp) -> Int32, run: (z_streamp) -> Int32,
        end: (z_streamp) -> Int32
    ) -> Data? {
        guard let given = uInt(exactly: input.count), let offered = uInt(exactly: room) else { return nil }
        // zlib keeps the address of its stream.
        let stream = z_streamp.allocate(capacity: 1)
        defer { stream.deallocate() }
        stream.initialize(to: z_stream())
        guard begin(stream) == Z_OK else { return nil }
        defer { _ = end(stream) }
        return Data(room: room) { output in
            let start = input.bindMemory(to: Bytef.self).baseAddress
            stream.pointee.next_in = UnsafeMutablePointer(mutating: start)
            stream.pointee.avail_in = given
            stream.pointee.next_out = output.assumingMemoryBound(to: Bytef.self)
            stream.pointee.avail_out = offered
            guard run(stream) == Z_STREAM_END, stream.pointee.avail_in == 0 else { return nil }
            return room - Int(stream.pointee.avail_out)
        }
    }
}

extension Data {
    /// - Parameter make: writes up to `room` bytes and returns their number; `nil` for failure.
    fileprivate init?(room: Int, make: (UnsafeMutableRawPointer) -> Int?) {
        guard let output = malloc(Swift.max(room, 1)) else { return nil }
        guard let made = make(output) else {
            free(output)
            return nil
        }
        self.init(bytesNoCopy: realloc(output, Swift.max(made, 1)) ?? output, count: made, deallocator: .free)
    }
}

enum Zstd {
    /// A frame that begins with the body's length, of at most `limit` bytes.
    static func compress(_ body: Data, atMost limit: Int) -> Data? {
        body.withUnsafeBytes { input in
            output(limit) { ZSTD_compress($0, limit, input.baseAddress, input.count, ZSTD_CLEVEL_DEFAULT) }
        }
    }

    /// `nil` if the bytes are not complete frames of `count` bytes, which the first one must announce.
    static func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) -> Data? {
        // A block makes at most 128 KiB and takes at least four bytes.
        guard count >= 0, count / 32_768 <= bytes.count,
            ZSTD_getFrameContentSize(bytes.baseAddress, bytes.count) == UInt64(count)
        else { return nil }
        let body = output(count) { ZSTD_decompress($0, count, bytes.baseAddress, bytes.count) }
        return body?.count == count ? body : nil
    }

    private static func output(_ room: Int, _ make: (UnsafeMutableRawPointer) -> Int) -> Data? {
        Data(room: room) { output in
            let made = make(output)
            return ZSTD_isError(made) == 0 ? made : nil
        }
    }
}
