import Foundation

/// A reader of metadata that checks every read against the end.
struct RecordReader {
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

    /// Reads the length of a body before it was compressed.
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
    func loadLE<Value: FixedWidthInteger>(_ type: Value.Type, at offset: Int) -> Value {
        Value(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
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
