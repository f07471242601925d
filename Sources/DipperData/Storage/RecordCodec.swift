import Foundation

/// A transformation of everything that the cache writes to disk and to the program's tiers, such as encryption.
///
/// The cache makes a record of each entry and partial body: body, header fields and checksum, compressed if
/// ``DataCache/Configuration/compression`` says so. A codec turns the record into the stored bytes, and back.
///
/// ```swift
/// import Crypto       // of the package swift-crypto
///
/// struct AESCodec: RecordCodec {
///     let key: SymmetricKey
///     let identifier: String      // names the key, such as "aes-gcm, key of 2026"
///
///     func encode(_ record: Data) throws -> Data {
///         try AES.GCM.seal(record, using: key).combined ?? Data()
///     }
///
///     func decode(_ bytes: Data) throws -> Data {
///         try AES.GCM.open(AES.GCM.SealedBox(combined: bytes), using: key)
///     }
/// }
///
/// configuration.recordCodec = AESCodec(key: key, identifier: "aes-gcm, key of 2026")
/// ```
///
/// Keys, URLs, times and sizes stay readable in the folder. Entries stored without a codec stay readable, in the folder
/// as well, until they are replaced or removed.
///
/// An entry counts as absent if its codec is not the configured one, throws an error, or does not return the record. It
/// stays in the folder until it is fetched again, expires or is evicted, so a wrong key empties no cache.
///
/// Both methods are called from any thread, several at a time. They must not use the cache.
public protocol RecordCodec: Sendable {
    /// The name of the transformation and its key. The cache stores a hash of it, in clear, and lets a codec decode
    /// only records with its identifier.
    var identifier: String { get }

    /// Returns the bytes to store for a record. If it throws, the entry is not kept on disk.
    func encode(_ record: Data) throws -> Data

    /// Returns the record that ``encode(_:)`` was given.
    /// - Throws: an error if the bytes cannot be decoded, which the cache logs.
    func decode(_ bytes: Data) throws -> Data
}
