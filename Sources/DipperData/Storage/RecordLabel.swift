import Foundation

/// The metadata of a record that a codec has encoded: what is in clear of it, and which codec is needed.
///
/// Codec (UInt64), stored, expires and access extension as in other records, key, URL.
struct RecordLabel {
    /// The number of the codec.
    let codec: UInt64
    let key: CacheKey
    private let url: String
    private let stored: TimeInterval
    private let lifetime: Lifetime

    init(_ record: EntryRecord, codec: UInt64) {
        self.codec = codec
        key = record.key
        url = record.value.info.url
        stored = record.value.info.stored
        lifetime = record.lifetime
    }

    /// Reads the metadata of a record; returns `nil` if it cannot be read.
    init?(_ metadata: UnsafeRawBufferPointer) {
        var reader = RecordReader(metadata)
        guard let codec = reader.read(UInt64.self), let stored = reader.read(UInt64.self),
            let expires = reader.read(UInt64.self), let added = reader.read(UInt64.self),
            let key = reader.readText(), let url = reader.readText()
        else { return nil }
        let accessExtension = Double(bitPattern: added)
        self.codec = codec
        self.key = CacheKey(verbatim: key)
        self.url = url
        self.stored = Double(bitPattern: stored)
        self.lifetime = Lifetime(
            expires: Double(bitPattern: expires), accessExtension: accessExtension.isNaN ? nil : accessExtension)
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(value: codec)
        bytes.append(value: stored.bitPattern)
        bytes.append(value: lifetime.expires.bitPattern)
        bytes.append(value: (lifetime.accessExtension ?? .nan).bitPattern)
        bytes.append(text: key.string)
        bytes.append(text: url)
        return bytes
    }
}
