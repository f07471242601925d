import Foundation

/// The compression of bodies on disk.
///
/// A cache can read what any other cache has written, whatever compression the two are configured to use.
///
/// ```swift
/// var configuration = DataCache.Configuration(directory: DataCache.Configuration.defaultDirectory)
/// configuration.compression = .zstd
/// ```
public struct StorageCompression: Sendable, Hashable {
    /// The coding of a body on disk. The raw value is the number in the record format.
    enum Coding: UInt32 {
        case identity = 0
        case gzip = 1
        case zstd = 2
    }

    let coding: Coding

    /// No compression: bodies are stored as they are, so that other programs can open the files of larger ones.
    public static let off = StorageCompression(coding: .identity)
    /// Compression by gzip (RFC 1952) where it is worthwhile: for bodies of at least 1 KiB, unless the first bytes or
    /// the `Content-Type` show that they are compressed already, and only if it saves an eighth.
    public static let gzip = StorageCompression(coding: .gzip)
    /// Compression by Zstandard (RFC 8878) of the same bodies as ``gzip``: about as small, in a fraction of the time.
    public static let zstd = StorageCompression(coding: .zstd)

    /// The size of the smallest body that is compressed, in bytes.
    static let smallestBody = 1_024

    /// Returns the compressed body; `nil` if the body is to be stored as it is.
    func compressed(_ value: StoredData) -> Data? {
        let body = value.data
        guard coding != .identity, body.count >= Self.smallestBody,
            !CompressedFormats.contain(body, type: value.info.headers["Content-Type"])
        else { return nil }
        let limit = body.count - body.count / 8
        return coding == .zstd ? Zstd.compress(body, atMost: limit) : Gzip.compress(body, atMost: limit)
    }
}
