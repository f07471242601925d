import Foundation

/// The data of a record that the index keeps of its entry, and the number of the codec that has encoded the record.
///
/// An encoded record has its label in clear in place of the metadata, so that files can be listed without the codec:
/// codec (UInt64), stored, expires and access extension as in other records, key, URL.
struct RecordLabel {
    /// The number of the codec; zero if none has encoded the record.
    let codec: UInt64
    let key: CacheKey
    let url: String
    /// The time at which the entry was stored, in seconds since 1970.
    let stored: TimeInterval
    let lifetime: Lifetime

    init(_ record: EntryRecord, codec: UInt64) {
        self.codec = codec
        key = record.key
        url = record.value.info.url
        stored = record.value.info.stored
        lifetime = record.lifetime
    }

    /// Reads the metadata of a record; returns `nil` if it cannot be read.
    /// - Parameter isEncoded: whether a codec has encoded the record.
    init?(_ metadata: UnsafeRawBufferPointer, isEncoded: Bool) {
        guard isEncoded else {
            guard let head = EntryRecord.decodeMetadata(metadata) else { return nil }
            self.codec = 0
            self.key = head.key
            self.url = head.info.url
            self.stored = head.info.stored
            self.lifetime = head.lifetime
            return
        }
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
