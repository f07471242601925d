import CXXHash
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

/// The form of entries on disk: a compression of bodies, and a codec around it. Records that no codec has encoded are
/// read whatever the format is.
struct RecordFormat: Sendable {
    var compression = StorageCompression.off
    var codec: (any RecordCodec)?

    enum Reading {
        case record(EntryRecord)
        /// A sound record that another codec has encoded, or that the codec refuses with an error.
        case unreadable(CacheKey, DipperError?)
        case damaged

        var record: EntryRecord? { if case .record(let record) = self { record } else { nil } }

        var key: CacheKey? {
            switch self {
            case .record(let record): record.key
            case .unreadable(let key, _): key
            case .damaged: nil
            }
        }
    }

    func encode(_ record: EntryRecord) throws(DipperError) -> (body: Data, trailer: [UInt8]) {
        let (body, trailer) = record.encoded(compression)
        guard let codec else { return (body, trailer) }
        var whole = Data(capacity: body.count + trailer.count)
        whole.append(body)
        whole.append(contentsOf: trailer)
        let encoded: Data
        do { encoded = try codec.encode(whole) } catch { throw DipperError(error, as: .unencodable) }
        return (encoded, record.encodeTrailer(encoded: encoded, by: Self.number(of: codec)))
    }

    func decode(_ whole: Data, begun: UInt64 = RemovalHistory.now, limit: Int = .max) -> Reading {
        whole.withUnsafeBytes { bytes in
            guard let layout = EntryRecord.layout(bytes, size: bytes.count) else { return .damaged }
            return decode(
                UnsafeRawBufferPointer(rebasing: bytes[..<layout.body]),
                UnsafeRawBufferPointer(rebasing: bytes[layout.body...]), begun: begun, limit: limit
            ) { Data(bytes[..<layout.body]) }
        }
    }

    /// - Parameters:
    ///   - begun: a moment of ``RemovalHistory`` before the bytes were read.
    ///   - limit: the largest size of a decompressed body, in bytes.
    ///   - takeBody: returns a body that is neither compressed nor encoded; called after all checks.
    func decode(
        _ body: UnsafeRawBufferPointer, _ trailer: UnsafeRawBufferPointer, begun: UInt64 = RemovalHistory.now,
        limit: Int = .max, takeBody: () -> Data
    ) -> Reading {
        guard let layout = EntryRecord.soundLayout(body, trailer) else { return .damaged }
        let metadata = UnsafeRawBufferPointer(rebasing: trailer[..<layout.metadata])
        if let coding = layout.coding {
            let record = EntryRecord.decode(
                body, coding, metadata: metadata, begun: begun, limit: limit, takeBody: takeBody)
            return record.map(Reading.record) ?? .damaged
        }
        guard let label = EntryRecord.decodeLabel(metadata) else { return .damaged }
        guard let codec, label.codec == Self.number(of: codec) else { return .unreadable(label.key, nil) }
        let whole: Data
        do {
            whole = try codec.decode(Data(body))
        } catch {
            return .unreadable(label.key, DipperError(error, as: .undecodable))
        }
        guard let record = RecordFormat().decode(whole, begun: begun, limit: limit).record,
            record.key == label.key
        else { return .unreadable(label.key, .undecodable) }
        return .record(record)
    }

    /// XXH3-64 of the codec's identifier.
    private static func number(of codec: any RecordCodec) -> UInt64 {
        Array(codec.identifier.utf8).withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) }
    }
}
