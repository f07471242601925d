import CXXHash
import Foundation

// A record is one entry in its stored form, in two parts. On disk the trailer is in a row of the index, and the body in
// the row or in a file; a tier of the program gets them one after the other:
//
//     body        the entry's bytes; compressed if the version is 3 or 6
//     trailer     metadata: see EntryRecord.swift
//                 footer, 32 bytes, little-endian:
//                   0  magic "DIPR"
//                   4  version of this format, UInt32: 2; 3 for a compressed body; 4 for an encoded record; 5 and 6 in
//                      place of 2 and 3 if a shared cache would not have kept the answer: readers that do not know of
//                      such answers count them as absent
//                   8  length of the stored body, UInt64
//                  16  length of the metadata, UInt32
//                  20  compression of the body, UInt32: 1 for gzip (RFC 1952), 2 for Zstandard (RFC 8878); zero in
//                      versions 2, 4 and 5
//                  24  checksum, UInt64
//
// The checksum is XXH3-64 of metadata and footer (up to the checksum), seeded with XXH3-64 of the stored body. A record
// with a wrong footer, length or checksum counts as absent.
//
// Version 4 has, in place of the body, a whole record of another version that a `RecordCodec` has encoded. Its metadata
// is the label: the number of the codec (UInt64), the key, and when the answer was generated (Float64, seconds since
// 1970; absent in older records). Without the codec only checksum and label can be read.

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

    /// - Parameter isPlain: whether the body is not to be compressed: only one as it came can be continued.
    func encode(
        _ record: EntryRecord, isPlain: Bool = false
    ) throws(DipperError) -> (body: Data, trailer: [UInt8]) {
        let compressed = isPlain ? nil : compression.compressed(record.value)
        let body = compressed ?? record.value.data
        var trailer = record.metadata
        if compressed != nil { trailer.append(value: UInt64(record.value.data.count)) }
        Footer.append(
            to: &trailer, (body.count, body.digest), compressed == nil ? .identity : compression.coding,
            isForClient: record.isForClient)
        guard let codec else { return (body, trailer) }
        var whole = Data(capacity: body.count + trailer.count)
        whole.append(body)
        whole.append(contentsOf: trailer)
        let encoded: Data
        do { encoded = try codec.encode(whole) } catch { throw DipperError(error, as: .unencodable) }
        var label: [UInt8] = []
        label.append(value: Self.number(of: codec))
        label.append(text: record.key.string)
        label.append(value: record.value.info.freshness.generated.bitPattern)
        Footer.append(to: &label, (encoded.count, encoded.digest), nil)
        return (encoded, label)
    }

    /// Returns the trailer of a record whose body is stored as it came.
    static func trailer(of record: EntryRecord, body: (count: Int, digest: UInt64)) -> [UInt8] {
        var trailer = record.metadata
        Footer.append(to: &trailer, body, .identity, isForClient: record.isForClient)
        return trailer
    }

    /// Whether decoding takes no longer than copying a few pages: the record is short, and neither compressed nor encoded.
    static func isQuick(_ whole: Data) -> Bool {
        whole.count <= 64 << 10 && Footer(whole).map { $0.coding == .identity } != false
    }

    /// - Parameter isOwn: whether nobody else has the bytes, so that the body need not be copied.
    func decode(
        _ whole: Data, isOwn: Bool = false, begun: UInt64 = RemovalHistory.now, limit: Int = .max
    ) -> Reading {
        guard let count = Footer(whole)?.body, count <= whole.count else { return .damaged }
        let body = whole.prefix(count)
        return decode(
            isOwn && body.startIndex == 0 ? body : Data(body), whole.dropFirst(count), begun: begun, limit: limit)
    }

    /// - Parameters:
    ///   - key: the key that the record should have, whose text need not be read again then.
    ///   - begun: a moment of ``RemovalHistory`` before the bytes were read.
    ///   - limit: the largest size of a decompressed body, in bytes.
    func decode(
        _ body: Data, _ trailer: Data, for key: CacheKey? = nil, begun: UInt64 = RemovalHistory.now,
        limit: Int = .max
    ) -> Reading {
        trailer.withUnsafeBytes { decode(body, $0, for: key, begun: begun, limit: limit) }
    }

    private func decode(
        _ body: Data, _ trailer: UnsafeRawBufferPointer, for key: CacheKey?, begun: UInt64, limit: Int
    ) -> Reading {
        guard let footer = Footer(trailer), footer.fits(body, trailer) else { return .damaged }
        let metadata = UnsafeRawBufferPointer(rebasing: trailer.prefix(footer.metadata))
        if let coding = footer.coding {
            let record = EntryRecord.decode(
                metadata, body, coding, for: key, isForClient: footer.isForClient, begun: begun, limit: limit)
            return record.map(Reading.record) ?? .damaged
        }
        guard let label = EntryRecord.decodeLabel(metadata) else { return .damaged }
        guard let codec, label.codec == Self.number(of: codec) else { return .unreadable(label.key, nil) }
        let whole: Data
        do {
            whole = try codec.decode(body)
        } catch {
            return .unreadable(label.key, DipperError(error, as: .undecodable))
        }
        guard let record = RecordFormat().decode(whole, begun: begun, limit: limit).record,
            record.key == label.key
        else { return .unreadable(label.key, .undecodable) }
        return .record(record)
    }

    /// Reads the metadata of a record that no codec has encoded, for a list: without its body no checksum is checked.
    static func info(in trailer: Data) -> EntryInfo? {
        guard let footer = Footer(trailer), footer.coding != nil else { return nil }
        return EntryRecord.decodeMetadata(trailer.prefix(footer.metadata), isForClient: footer.isForClient)?.value.info
    }

    /// Reads when an answer was generated, in seconds since 1970, also of a record that a codec has encoded.
    static func generated(in trailer: Data) -> TimeInterval? {
        guard let footer = Footer(trailer) else { return nil }
        if footer.coding != nil { return info(in: trailer)?.freshness.generated }
        return trailer.prefix(footer.metadata).withUnsafeBytes { EntryRecord.decodeLabel($0) }?.generated
    }

    private static func number(of codec: any RecordCodec) -> UInt64 { Data(codec.identifier.utf8).digest }

    struct Footer {
        private static let size = 32
        private static let magic: UInt32 = 0x5250_4944

        /// Lengths in bytes.
        let body: Int
        let metadata: Int
        let coding: StorageCompression.Coding?
        /// Whether a shared cache would not have kept the answer.
        let isForClient: Bool

        private static func version(_ coding: StorageCompression.Coding?, isForClient: Bool) -> UInt32 {
            switch coding {
            case .identity: isForClient ? 5 : 2
            case .gzip, .zstd: isForClient ? 6 : 3
            case nil: 4
            }
        }

        static func append(
            to metadata: inout [UInt8], _ body: (count: Int, digest: UInt64), _ coding: StorageCompression.Coding?,
            isForClient: Bool = false
        ) {
            let length = metadata.count
            metadata.append(value: magic)
            metadata.append(value: version(coding, isForClient: isForClient))
            metadata.append(value: UInt64(body.count))
            metadata.append(value: UInt32(length))
            metadata.append(value: coding?.rawValue ?? 0)
            let sum = metadata.withUnsafeBytes { checksum(body.digest, $0) }
            metadata.append(value: sum)
        }

        /// `nil` if `tail` does not end with the last bytes of a record.
        init?(_ tail: Data) {
            guard let footer = tail.withUnsafeBytes({ Footer($0) }) else { return nil }
            self = footer
        }

        init?(_ tail: UnsafeRawBufferPointer) {
            let start = tail.count - Self.size
            guard start >= 0 else { return nil }
            let (magic, version, body, metadata, compression) = (
                tail.loadLE(UInt32.self, at: start), tail.loadLE(UInt32.self, at: start + 4),
                tail.loadLE(UInt64.self, at: start + 8), tail.loadLE(UInt32.self, at: start + 16),
                tail.loadLE(UInt32.self, at: start + 20)
            )
            guard magic == Self.magic, body <= UInt64(Int.max) / 2,
                let known = StorageCompression.Coding(rawValue: compression)
            else { return nil }
            coding = version == 4 && known == .identity ? nil : known
            isForClient = version > 4
            guard version == Self.version(coding, isForClient: isForClient) else { return nil }
            self.body = Int(body)
            self.metadata = Int(metadata)
        }

        func fits(_ body: Data, _ trailer: UnsafeRawBufferPointer) -> Bool {
            guard self.body == body.count, metadata + Self.size == trailer.count else { return false }
            let checked = UnsafeRawBufferPointer(rebasing: trailer.dropLast(8))
            return Self.checksum(body.digest, checked) == trailer.loadLE(UInt64.self, at: checked.count)
        }

        private static func checksum(_ body: UInt64, _ trailer: UnsafeRawBufferPointer) -> UInt64 {
            dipper_xxh3_seeded(trailer.baseAddress, trailer.count, body)
        }
    }
}

extension [UInt8] {
    mutating func append(value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }

    mutating func append(text: String) {
        append(value: UInt32(clamping: text.utf8.count))
        append(contentsOf: text.utf8)
    }
}
