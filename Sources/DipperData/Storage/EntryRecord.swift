import CXXHash
import Foundation

// A record is one entry in its stored form, in two parts. On disk the trailer is in a row of the index, and the body in
// the row or in a file; a tier of the program gets them one after the other:
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
// The checksum is XXH3-64 of metadata and footer (up to the checksum), seeded with XXH3-64 of the stored body. A record
// with a wrong footer, length or checksum counts as absent.
//
// Version 4 has, in place of the body, a whole record of version 2 or 3 that a `RecordCodec` has encoded. Its metadata
// is the label: the number of the codec (UInt64), and the key. Without the codec only checksum and label can be read.
//
// Metadata: stored (Float64, seconds since 1970), expires (Float64, infinity for never), access extension (Float64
// seconds; NaN for none; a fixed time in seconds since 1970, negated), generated and fresh until (Float64, seconds
// since 1970; infinities for ever and never), family (UInt64), status (UInt32), key, URL, number of header fields
// (UInt32), then name and value of each; number of request fields that chose the answer (UInt32, all bits set if there
// is only one answer), then of each its name, 1 or 0 (UInt32) for whether the request had it, and its value. Version 3
// ends with the length of the uncompressed body (UInt64). Texts are a UInt32 length in bytes and UTF-8.

struct EntryRecord {
    private static let footerSize = 32
    private static let magic: UInt32 = 0x5250_4944
    private static let plainVersion: UInt32 = 2
    private static let compressedVersion: UInt32 = 3
    private static let encodedVersion: UInt32 = 4

    var key: CacheKey
    var value: StoredData
    var lifetime: Lifetime

    func encoded(_ compression: StorageCompression) -> (body: Data, trailer: [UInt8]) {
        guard let compressed = compression.compressed(value) else { return (value.data, encodeTrailer()) }
        return (compressed, encodeTrailer(compressed: compressed, compression.coding))
    }

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

    func encodeTrailer(encoded: Data, by codec: UInt64) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(value: codec)
        bytes.append(text: key.string)
        Self.appendFooter(to: &bytes, body: encoded, version: Self.encodedVersion, .identity)
        return bytes
    }

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

    struct Layout: Hashable {
        var body: Int
        var metadata: Int
        /// `nil` if a codec has encoded the record.
        var coding: StorageCompression.Coding?

        var isEncoded: Bool { coding == nil }
    }

    /// `nil` if `tail` does not hold the last bytes of a record.
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

    static func soundLayout(_ body: UnsafeRawBufferPointer, _ trailer: UnsafeRawBufferPointer) -> Layout? {
        guard let layout = Self.layout(trailer, size: body.count + trailer.count), layout.body == body.count else {
            return nil
        }
        let bodyHash = dipper_xxh3_seeded(body.baseAddress, body.count, 0)
        let checksum = dipper_xxh3_seeded(trailer.baseAddress, trailer.count - 8, bodyHash)
        return checksum == trailer.loadLE(UInt64.self, at: trailer.count - 8) ? layout : nil
    }

    /// Decodes a sound record that no codec has encoded; the parameters are those of `RecordFormat.decode`.
    static func decode(
        _ body: UnsafeRawBufferPointer, _ coding: StorageCompression.Coding, metadata: UnsafeRawBufferPointer,
        begun: UInt64, limit: Int, takeBody: () -> Data
    ) -> EntryRecord? {
        var reader = RecordReader(metadata)
        guard let head = reader.readHead(begun) else { return nil }
        let data: Data
        switch coding {
        case .identity:
            data = takeBody()
        case .gzip, .zstd:
            guard let count = reader.readCount(), count <= limit,
                let whole = coding == .zstd
                    ? Zstd.decompress(body, count: count) : Gzip.decompress(body, count: count)
            else { return nil }
            data = whole
        }
        return EntryRecord(
            key: head.key, value: StoredData(data: data, info: head.info), lifetime: head.lifetime)
    }

    static func decodeLabel(_ metadata: UnsafeRawBufferPointer) -> (codec: UInt64, key: CacheKey)? {
        var reader = RecordReader(metadata)
        guard let codec = reader.read(UInt64.self), let key = reader.readText() else { return nil }
        return (codec, CacheKey(verbatim: key))
    }

    /// Does not check the body. The record must be one that no codec has encoded.
    static func decodeMetadata(
        _ trailer: UnsafeRawBufferPointer
    ) -> (key: CacheKey, info: EntryInfo, lifetime: Lifetime)? {
        guard trailer.count >= footerSize else { return nil }
        var reader = RecordReader(UnsafeRawBufferPointer(rebasing: trailer[..<(trailer.count - footerSize)]))
        return reader.readHead(RemovalHistory.now)
    }
}

extension EntryRecord {
    private static let partialLife = 7

    init(_ partial: PartialBody, for key: CacheKey, now: Date) {
        let info = EntryInfo(
            url: partial.url, headers: Storing.fields(of: partial.headers), stored: now.timeIntervalSince1970)
        self.init(
            key: key, value: StoredData(data: partial.bytes, info: info),
            lifetime: Lifetime(.days(Self.partialLife), extendedBy: .unchanged, now: now))
    }
}

extension PartialBody {
    init?(_ kept: StoredData) {
        self.init(TransferResponse(headers: kept.info.headers, body: kept.data), of: kept.info.url)
    }
}

private struct RecordReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    mutating func readHead(_ begun: UInt64) -> (key: CacheKey, info: EntryInfo, lifetime: Lifetime)? {
        guard let stored = read(UInt64.self), let expires = read(UInt64.self), let added = read(UInt64.self),
            let generated = read(UInt64.self), let until = read(UInt64.self), let family = read(UInt64.self),
            let status = read(UInt32.self), let key = readText(), let url = readText(),
            let count = read(UInt32.self)
        else { return nil }
        var fields: [HTTPHeaders.Field] = []
        for _ in 0..<count {
            guard let name = readText(), let value = readText() else { return nil }
            fields.append(.init(name, value))
        }
        guard let chosenBy = read(UInt32.self) else { return nil }
        var names: [String] = []
        var values: [String?] = []
        if chosenBy != .max {
            for _ in 0..<chosenBy {
                guard let name = readText(), let isThere = read(UInt32.self), let value = readText() else { return nil }
                names.append(name)
                values.append(isThere == 0 ? nil : value)
            }
        }
        let accessExtension = Double(bitPattern: added)
        return (
            CacheKey(verbatim: key),
            EntryInfo(
                url: url, status: Int(status), headers: HTTPHeaders(fields), stored: Double(bitPattern: stored),
                freshness: Freshness(generated: Double(bitPattern: generated), until: Double(bitPattern: until)),
                variant: chosenBy == .max ? nil : Variant(names: names, values: values), family: family, begun: begun),
            Lifetime(
                expires: Double(bitPattern: expires),
                accessExtension: accessExtension.isNaN ? nil : accessExtension)
        )
    }

    mutating func readCount() -> Int? { read(UInt64.self).flatMap { Int(exactly: $0) } }

    mutating func read<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        guard bytes.count - position >= MemoryLayout<Value>.size else { return nil }
        defer { position += MemoryLayout<Value>.size }
        return bytes.loadLE(type, at: position)
    }

    mutating func readText() -> String? {
        guard let length = read(UInt32.self), Int(length) <= bytes.count - position else { return nil }
        defer { position += Int(length) }
        return String(decoding: bytes[position..<(position + Int(length))], as: UTF8.self)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func loadLE<Value: FixedWidthInteger>(_ type: Value.Type, at offset: Int) -> Value {
        Value(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}

extension [UInt8] {
    fileprivate mutating func append(value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }

    fileprivate mutating func append(text: String) {
        append(value: UInt32(clamping: text.utf8.count))
        append(contentsOf: text.utf8)
    }
}
