import Foundation

/// Whether bodies are compressed on disk.
///
/// A cache reads what any other has written, whatever both are configured to do.
public struct StorageCompression: Sendable, Hashable {
    /// How the bytes of a body lie on disk; the number is that of the format.
    enum Coding: UInt32 {
        case identity = 0
        case gzip = 1
    }

    let coding: Coding

    /// Bodies lie on disk as they are, so that other programs can open the larger ones.
    public static let off = StorageCompression(coding: .identity)
    /// Bodies are compressed by gzip (RFC 1952) where that is worth it: from 1 KiB on, unless their first bytes or their
    /// `Content-Type` tell that they are compressed already, and only if it saves an eighth.
    public static let gzip = StorageCompression(coding: .gzip)

    /// Smaller bodies are written as they are, in bytes.
    static let smallestBody = 1_024

    /// The body as it is to be kept; `nil` if it is to be kept as it is.
    func compressed(_ value: StoredData) -> Data? {
        let body = value.data
        guard coding == .gzip, body.count >= Self.smallestBody,
            !CompressedFormats.contain(body, type: value.info.headers["Content-Type"])
        else { return nil }
        return Gzip.compress(body, atMost: body.count - body.count / 8)
    }
}
