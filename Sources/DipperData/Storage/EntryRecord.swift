import CXXHash
import Foundation

// A record is one entry in its stored form, in two parts. In the disk tier the trailer is in a row of the index, and the
// body in the row or in a file; a tier of the program's own gets them one after the other:
//
//     body        the entry's bytes; compressed if the version is 3
//     trailer     metadata: see `encodeTrailer`
//                 footer, 32 bytes, little-endian:
//                   0  magic "DIPR"
//                   4  version of this format, UInt32: 2; 3 for a compressed body; 4 for an encoded record
//                   8  length of the stored body, UInt64
//                  16  length of the metadata, UInt32
//                  20  compression of the body, UInt32: 1 for gzip (RFC 1952), 2 for Zstandard (RFC 8878); zero in
//                      versions 2 and 4
//                  24  checksum, UInt64
//
// The checksum is XXH3-64 of metadata and footer (up to the checksum), seeded with XXH3-64 of the body on disk. It
// covers every byte, the lengths and the key. A record with a wrong
// footer, length or checksum counts as absent.
//
// Records of versions 2 and 3 may exist in one folder. `DataCache.Configuration.compression` decides which one is
// written; both are always read.
//
// Version 4 contains a whole record of version 2 or 3 that a `RecordCodec` has encoded, in place of the body. Its
// metadata is the label: the key, and which codec is needed (RecordLabel.swift).
// Without the codec the checksum and the label can be read, and nothing else.
//
// Metadata: stored (Float64, seconds since 1970), expires (Float64, infinity for never), access extension (Float64
// seconds; NaN for none; a fixed time in seconds since 1970, negated), generated and fresh until (Float64, seconds
// since 1970; infinities for ever and never), family (UInt64, see `DataStore.keep`), status (UInt32), key, URL, number
// of header fields (UInt32), then name and value of each; number of request fields that chose the answer (UInt32, all
// bits set if there is only one answer), then of each its name, 1 or 0 (UInt32) for whether the request had it, and its
// value. Version 3 ends with the length of the uncompressed body (UInt64). Texts are a UInt32 length in bytes and
// UTF-8.

/// One entry in its form on disk.
struct EntryRecord {
    static let footerSize = 32
    private static let magic: UInt32 = 0x5250_4944
    private static let plainVersion: UInt32 = 2
    private static let compressedVersion: UInt32 = 3
    private static let encodedVersion: UInt32 = 4

    var key: CacheKey
    var value: StoredData
    var lifetime: Lifetime

    /// Returns the record in two parts: the body as it is to be stored on disk, and the trailer that follows the body.
    func encoded(_ compression: StorageCompression) -> (body: Data, trailer: [UInt8]) {
        guard let compressed = compression.compressed(value) else { return (value.data, encodeTrailer()) }
        return (compressed, encodeTrailer(compressed: compressed, compression.coding))
    }

    /// Returns the trailer, which follows the body: metadata and footer.
    /// - Parameter compressed: the compressed body; `nil` if the body is stored as it is.
    func encodeTrailer(
        compressed: Data? = nil, _ coding: StorageCompression.Coding = .identity
    ) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        let info = value.info
        bytes.append(value: info.stored.bitPattern)
        bytes.append(value: lifetime.expires.bitPattern)
        bytes.append(value: (lifetime.accessExtension ?? .nan).bitPattern)
        bytes.append(value: info.freshness.generated.bitPattern)
        bytes.append(value: info.freshness.until.bitPattern)
        bytes.append(value: info.family)
        bytes.append(value: UInt32(clamping: info.status))
        bytes.append(text: key.string)
        bytes.append(text: info.url)
        bytes.append(value: UInt32(clamping: info.headers.fields.count))
        for field in info.headers.fields {
            bytes.append(text: field.name)
            bytes.append(text: field.value)
        }
        bytes.append(value: info.variant.map { UInt32(clamping: $0.names.count) } ?? .max)
        if let variant = info.variant {
            for (name, value) in zip(variant.names, variant.values) {
                bytes.append(text: name)
                bytes.append(value: UInt32(value == nil ? 0 : 1))
                bytes.append(text: value ?? "")
            }
        }
        if compressed != nil { bytes.append(value: UInt64(value.data.count)) }
        Self.appendFooter(
            to: &bytes, body: compressed ?? value.data,
            version: compressed == nil ? Self.plainVersion : Self.compressedVersion, coding)
        return bytes
    }

    /// Returns the trailer of the record once a codec has encoded it: label and footer.
    /// - Parameters:
    ///   - encoded: the encoded record, which takes the place of the body.
    ///   - codec: the number of the codec; see ``RecordLabel``.
    func encodeTrailer(encoded: Data, by codec: UInt64) -> [UInt8] {
        var bytes = RecordLabel(key, codec: codec).encoded()
        Self.appendFooter(to: &bytes, body: encoded, version: Self.encodedVersion, .identity)
        return bytes
    }

    /// Appends the footer to the metadata.
    private static func appendFooter(
        to bytes: inout [UInt8], body: Data, version: UInt32, _ coding: StorageCompression.Coding
    ) {
        let metadataLength = bytes.count
        bytes.append(value: magic)
        bytes.append(value: version)
        bytes.append(value: UInt64(body.count))
        bytes.append(value: UInt32(metadataLength))
        bytes.append(value: coding.rawValue)
        let bodyHash = body.withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) }
        let checksum = bytes.withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, bodyHash) }
        bytes.append(value: checksum)
    }

    /// The lengths of a record's parts, in bytes, and how the body is stored.
    struct Layout: Hashable {
        var body: Int
        var metadata: Int
        /// The compression of the body; `nil` if a codec has encoded the record.
        var coding: StorageCompression.Coding?

        /// Whether a codec has encoded the record. The metadata is a label then.
        var isEncoded: Bool { coding == nil }
    }

    /// Returns the layout of a record, if `tail` holds its last bytes; `nil` otherwise.
    /// - Parameter size: the size of the record, in bytes; `nil` if it is not known.
    static func layout(_ tail: UnsafeRawBufferPointer, size: Int?) -> Layout? {
        guard tail.count >= footerSize else { return nil }
        let footer = tail.count - footerSize
        guard tail.loadLE(UInt32.self, at: footer) == magic,
            let coding = StorageCompression.Coding(rawValue: tail.loadLE(UInt32.self, at: footer + 20))
        else { return nil }
        let version = tail.loadLE(UInt32.self, at: footer + 4)
        let isEncoded = version == encodedVersion && coding == .identity
        guard isEncoded || version == (coding == .identity ? plainVersion : compressedVersion) else { return nil }
        let body = tail.loadLE(UInt64.self, at: footer + 8)
        let metadata = Int(tail.loadLE(UInt32.self, at: footer + 16))
        guard body <= UInt64(Int.max) / 2, size.map({ Int(body) + metadata + footerSize == $0 }) ?? true else {
            return nil
        }
        return Layout(body: Int(body), metadata: metadata, coding: isEncoded ? nil : coding)
    }

    /// Returns whether the checksum of a record is right.
    static func isSound(_ body: UnsafeRawBufferPointer, _ trailer: UnsafeRawBufferPointer) -> Bool {
        let bodyHash = dipper_xxh3_seeded(body.baseAddress, body.count, 0)
        return dipper_xxh3_seeded(trailer.baseAddress, trailer.count - 8, bodyHash)
            == trailer.loadLE(UInt64.self, at: trailer.count - 8)
    }

    /// Decodes a record that no codec has encoded, and checks it; returns `nil` if it is not valid.
    /// - Parameters:
    ///   - begun: a moment of ``StoreHistory`` before the bytes were read.
    ///   - takeBody: called after all checks, and returns the body as `Data`. Not called for a compressed body.
    static func decode(
        _ body: UnsafeRawBufferPointer, _ trailer: UnsafeRawBufferPointer, begun: UInt64 = StoreHistory.now,
        takeBody: () -> Data
    ) -> EntryRecord? {
        guard let layout = Self.layout(trailer, size: body.count + trailer.count), layout.body == body.count,
            let coding = layout.coding, isSound(body, trailer)
        else { return nil }
        var reader = RecordReader(UnsafeRawBufferPointer(rebasing: trailer[..<layout.metadata]))
        guard let head = reader.readHead(begun) else { return nil }
        let data: Data
        switch coding {
        case .identity:
            data = takeBody()
        case .gzip, .zstd:
            guard let count = reader.readCount(),
                let whole = coding == .zstd
                    ? Zstd.decompress(body, count: count) : Gzip.decompress(body, count: count)
            else { return nil }
            data = whole
        }
        return EntryRecord(
            key: head.key, value: StoredData(data: data, info: head.info), lifetime: head.lifetime)
    }

    /// Decodes the metadata of a record that no codec has encoded, without checking the body.
    static func decodeMetadata(
        _ trailer: UnsafeRawBufferPointer
    ) -> (key: CacheKey, info: EntryInfo, lifetime: Lifetime)? {
        guard trailer.count >= footerSize else { return nil }
        var reader = RecordReader(UnsafeRawBufferPointer(rebasing: trailer[..<(trailer.count - footerSize)]))
        return reader.readHead(StoreHistory.now)
    }
}
