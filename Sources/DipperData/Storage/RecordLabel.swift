/// The metadata of a record that a codec has encoded: the codec that is needed (UInt64), and the key, in clear.
struct RecordLabel {
    /// The number of the codec.
    let codec: UInt64
    let key: CacheKey

    init(_ key: CacheKey, codec: UInt64) {
        self.key = key
        self.codec = codec
    }

    /// Reads the metadata of a record; returns `nil` if it cannot be read.
    init?(_ metadata: UnsafeRawBufferPointer) {
        var reader = RecordReader(metadata)
        guard let codec = reader.read(UInt64.self), let key = reader.readText() else { return nil }
        self.init(CacheKey(verbatim: key), codec: codec)
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(value: codec)
        bytes.append(text: key.string)
        return bytes
    }
}
