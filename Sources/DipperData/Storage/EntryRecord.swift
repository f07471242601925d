import Foundation

/// An entry as the disk and the program's tiers keep it; ``RecordFormat`` says how it becomes bytes.
///
/// Its metadata: stored (Float64, seconds since 1970), expires (Float64, infinity for never), access extension (Float64
/// seconds; NaN for none; a fixed time in seconds since 1970, negated), generated and fresh until (Float64, seconds
/// since 1970; infinities for ever and never), family (UInt64), status (UInt32; its highest bit says that tiers that
/// others read may have the entry), key, URLs (``Addresses``), number of header fields (UInt32), then name and value of
/// each; number of request fields that chose the answer (UInt32, all bits set if there is only one answer), then of each
/// its name, 1 or 0 (UInt32) for whether the request had it, and its value. Those of a compressed body end with its
/// length when decompressed (UInt64). Texts are a UInt32 length in bytes and UTF-8.
struct EntryRecord {
    var key: CacheKey
    var value: StoredData
    var lifetime: Lifetime
    /// That the request gives the file; not stored.
    var fileExtension: String?
    /// Whether the beginning of another body, or a failure, may be kept for the key; not stored.
    var mayHaveRemnant = true

    var metadata: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(256)
        let info = value.info
        bytes.append(value: info.stored.bitPattern)
        bytes.append(value: lifetime.expires.bitPattern)
        bytes.append(value: (lifetime.accessExtension ?? .nan).bitPattern)
        bytes.append(value: info.freshness.generated.bitPattern)
        bytes.append(value: info.freshness.until.bitPattern)
        bytes.append(value: info.family)
        bytes.append(value: UInt32(clamping: info.status) | (info.audience == .everybody ? Self.sharedMark : 0))
        bytes.append(text: key.string)
        bytes.append(text: Addresses(info).text)
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
        return bytes
    }

    fileprivate static let sharedMark: UInt32 = 1 << 31
    fileprivate static let highestStatus: UInt32 = 999

    /// Whether a shared cache would not have kept the answer, which the version of the record tells.
    var isForClient: Bool { value.info.audience == .client }

    /// Decodes a record that has been checked; the other parameters are those of
    /// ``RecordFormat/decode(_:_:for:begun:limit:)``.
    static func decode(
        _ metadata: UnsafeRawBufferPointer, _ body: Data, _ coding: StorageCompression.Coding, for key: CacheKey?,
        isForClient: Bool, begun: UInt64, limit: Int
    ) -> EntryRecord? {
        var reader = RecordReader(metadata)
        guard var record = reader.readRecord(begun, for: key, isForClient: isForClient) else { return nil }
        var data = body
        if coding != .identity {
            guard let count = reader.read(UInt64.self).flatMap({ Int(exactly: $0) }), count <= limit,
                let whole = body.withUnsafeBytes({
                    coding == .zstd ? Zstd.decompress($0, count: count) : Gzip.decompress($0, count: count)
                })
            else { return nil }
            data = whole
        }
        record.value = StoredData(data: data, info: record.value.info)
        return record
    }

    /// Decodes the metadata of a record that no codec has encoded, and leaves the body empty.
    static func decodeMetadata(_ metadata: Data, isForClient: Bool) -> EntryRecord? {
        metadata.withUnsafeBytes { bytes -> EntryRecord? in
            var reader = RecordReader(bytes)
            return reader.readRecord(RemovalHistory.now, isForClient: isForClient)
        }
    }

    /// - Returns: with `generated` in seconds since 1970; `nil` in an older record.
    static func decodeLabel(
        _ metadata: UnsafeRawBufferPointer
    ) -> (codec: UInt64, key: CacheKey, generated: TimeInterval?)? {
        var reader = RecordReader(metadata)
        guard let codec = reader.read(UInt64.self), let key = reader.readText() else { return nil }
        return (codec, CacheKey(verbatim: key), reader.readMoment())
    }
}

extension EntryRecord {
    private static let partialLife = 7

    init(_ partial: PartialBody, for key: CacheKey, asked: String?, now: Date, body: Data = Data()) {
        let info = EntryInfo(
            url: partial.url, asked: asked, headers: Storing.fields(of: partial.headers),
            stored: now.timeIntervalSince1970, audience: min(partial.audience, .cache))
        self.init(
            key: key, value: StoredData(data: body, info: info),
            lifetime: Lifetime(.days(Self.partialLife), extendedBy: .unchanged, now: now))
    }
}

extension PartialBody {
    init?(_ kept: StoredData) {
        if Remnant(kept.info).failure != nil { return nil }
        self.init(TransferResponse(headers: kept.info.headers, body: kept.data), of: kept.info.url)
        audience = kept.info.audience
    }
}

private struct RecordReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    mutating func readRecord(_ begun: UInt64, for known: CacheKey? = nil, isForClient: Bool) -> EntryRecord? {
        guard let stored = readMoment(), let expires = readTime(), let added = readTime(),
            let generated = readMoment(), let until = readTime()?.bounded, let family = read(UInt64.self),
            let marked = read(UInt32.self), case let status = marked & ~EntryRecord.sharedMark,
            status <= EntryRecord.highestStatus,
            let key = readKey(known), let addresses = readAddresses(key), let count = read(UInt32.self)
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
        let info = EntryInfo(
            url: addresses.url, asked: addresses.asked,
            status: Int(status), headers: HTTPHeaders(fields), stored: stored,
            freshness: Freshness(generated: generated, until: until),
            variant: chosenBy == .max ? nil : Variant(names: names, values: values), family: family,
            audience: isForClient ? .client : marked == status ? .cache : .everybody, begun: begun, requested: stored)
        return EntryRecord(
            key: key, value: StoredData(data: Data(), info: info),
            lifetime: Lifetime(expires: expires, accessExtension: added.isNaN ? nil : added))
    }

    private mutating func readTime() -> TimeInterval? { read(UInt64.self).map { Double(bitPattern: $0) } }

    mutating func readMoment() -> TimeInterval? { readTime().flatMap { abs($0) < .longest ? $0 : nil } }

    mutating func read<Value: FixedWidthInteger>(_ type: Value.Type) -> Value? {
        guard bytes.count - position >= MemoryLayout<Value>.size else { return nil }
        defer { position += MemoryLayout<Value>.size }
        return bytes.loadLE(type, at: position)
    }

    mutating func readText() -> String? { readBytes().map { String(decoding: $0, as: UTF8.self) } }

    private mutating func readBytes() -> UnsafeRawBufferPointer? {
        guard let length = read(UInt32.self), Int(length) <= bytes.count - position else { return nil }
        defer { position += Int(length) }
        return UnsafeRawBufferPointer(rebasing: bytes[position..<(position + Int(length))])
    }

    private mutating func readKey(_ known: CacheKey?) -> CacheKey? {
        guard let bytes = readBytes() else { return nil }
        if let known, Self.isText(bytes, of: known.string) { return known }
        return CacheKey(verbatim: String(decoding: bytes, as: UTF8.self))
    }

    /// The URL of most entries is their key.
    private mutating func readAddresses(_ key: CacheKey) -> Addresses? {
        guard let bytes = readBytes() else { return nil }
        if bytes.isEmpty { return Addresses(url: "") }
        if Self.isText(bytes, of: key.string), !bytes.contains(UInt8(ascii: "\n")) { return Addresses(url: key.string) }
        return Addresses(String(decoding: bytes, as: UTF8.self))
    }

    private static func isText(_ bytes: UnsafeRawBufferPointer, of text: String) -> Bool {
        guard text.utf8.count == bytes.count, let start = bytes.baseAddress else { return false }
        var text = text
        return text.withUTF8 { $0.baseAddress.map { memcmp($0, start, bytes.count) == 0 } ?? true }
    }
}
