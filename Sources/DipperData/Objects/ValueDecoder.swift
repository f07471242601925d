import Foundation

/// A decoder of typed values; see ``DataCache/getValue(_:from:decoder:)``.
///
/// ``JSONValueDecoder`` and ``PropertyListValueDecoder`` are built in.
///
/// ```swift
/// struct CSVDecoder: ValueDecoder {
///     let identifier = "csv"
///     func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
///         try CSV.decode(type, from: data)
///     }
/// }
/// let table = try await cache.getValue(Table.self, from: url, decoder: CSVDecoder()).value
/// ```
public protocol ValueDecoder: Sendable {
    /// The identity of the decoder: decoders with one identity must make equal values of the same bytes.
    var identifier: String { get }

    /// Decodes a value. Called on a thread of the cache's own, never on the caller's.
    /// - Throws: any error; a `DecodingError` tells the path of the key that could not be decoded.
    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value

    /// Returns the memory that a value takes, in bytes, which counts towards
    /// ``DataCache/Configuration/valueMemoryLimit``. By default this is the number of bytes that it was decoded from.
    func cost<Value>(of value: Value, decodedFrom data: Data) -> Int
}

extension ValueDecoder {
    public func cost<Value>(of value: Value, decodedFrom data: Data) -> Int { data.count }
}

/// An encoder of typed values that a program stores: ``DataCache/addValue(_:for:encoder:)-(_,CacheKey,_)``.
/// `JSONEncoder` and `PropertyListEncoder` are encoders of values.
public protocol ValueEncoder {
    /// Encodes a value. Called on the caller's thread.
    func encode<Value: Encodable>(_ value: Value) throws -> Data
}

extension JSONEncoder: ValueEncoder {}
extension PropertyListEncoder: ValueEncoder {}

/// A decoder of JSON, by Foundation's `JSONDecoder`.
///
/// ```swift
/// let dates = JSONValueDecoder("ISO dates") { $0.dateDecodingStrategy = .iso8601 }
/// let feed = try await cache.getValue(Feed.self, from: url, decoder: dates).value
/// ```
public struct JSONValueDecoder: ValueDecoder {
    public let identifier: String
    private let decoder: JSONDecoder
    private static let plain = JSONDecoder()

    /// Creates a decoder with the default options of `JSONDecoder`.
    public init() { (identifier, decoder) = ("json", Self.plain) }

    /// Creates a decoder with options.
    /// - Parameters:
    ///   - name: the identity of the options. Decoders with different options have different names.
    ///   - configure: a closure that sets the options. It is called once.
    public init(_ name: String, _ configure: (JSONDecoder) -> Void) {
        identifier = "json " + name
        decoder = JSONDecoder()
        configure(decoder)
    }

    public func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        try decoder.decode(type, from: data)
    }
}

/// A decoder of property lists, by Foundation's `PropertyListDecoder`: binary ones, and XML in UTF-8 whose elements are
/// nested at most 512 deep.
public struct PropertyListValueDecoder: ValueDecoder {
    public let identifier = "property list"

    /// Creates a decoder.
    public init() {}

    public func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        let isSafe = data.starts(with: "bplist".utf8) || Self.mayBeParsed(data)
        guard isSafe else { throw DipperError.undecodable.with(detail: "nested too deep, or not in UTF-8") }
        return try PropertyListDecoder().decode(type, from: data)
    }

    private static let mostLevels = 512

    /// Foundation's parser of XML calls itself for each element within another, without a limit.
    private static func mayBeParsed(_ text: Data) -> Bool {
        // The other codings that the parser knows contain ASCII.
        if text.prefix(4).contains(0) || text.first == 0xFE || text.first == 0xFF { return false }
        return text.withUnsafeBytes { bytes in
            var (rest, depth) = (bytes[...], 0)
            while let start = rest.firstIndex(of: UInt8(ascii: "<")) {
                rest = rest[start...]
                // Markup in which tags do not count.
                let kind = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].first { rest.starts(with: $0.0.utf8) }
                let (beginning, ending) = kind ?? ("<", ">")
                guard let end = rest.dropFirst(beginning.utf8.count).firstRange(of: ending.utf8) else { return true }
                switch rest.dropFirst().first {
                case UInt8(ascii: "/"): depth = max(0, depth - 1)
                case UInt8(ascii: "!"), UInt8(ascii: "?"): break
                default: if rest[end.lowerBound - 1] != UInt8(ascii: "/") { depth += 1 }
                }
                if depth > mostLevels { return false }
                rest = rest[end.upperBound...]
            }
            return true
        }
    }
}

extension ValueDecoder where Self == JSONValueDecoder {
    /// The decoder of JSON with the default options of `JSONDecoder`.
    public static var json: JSONValueDecoder { JSONValueDecoder() }

    /// Returns a decoder of JSON with options; see ``JSONValueDecoder/init(_:_:)``.
    public static func json(_ name: String, _ configure: (JSONDecoder) -> Void) -> JSONValueDecoder {
        JSONValueDecoder(name, configure)
    }
}

extension ValueDecoder where Self == PropertyListValueDecoder {
    /// The decoder of property lists.
    public static var propertyList: PropertyListValueDecoder { PropertyListValueDecoder() }
}

/// One step for each type and decoder.
final class ValueStep: ObjectStep {
    /// Unique in this process only, as values are kept in memory only.
    let suffix: String
    private let decode: @Sendable (Data) throws -> Product

    init<Value: Decodable & Sendable>(_ type: Value.Type, _ decoder: some ValueDecoder) {
        let (number, name) = (UInt(bitPattern: ObjectIdentifier(type)), decoder.identifier)
        suffix = "\n#value \(number) \(name.utf8.count):\(name)"
        decode = { data in
            let value = try decoder.decode(Value.self, from: data)
            return Product(value, cost: decoder.cost(of: value, decodedFrom: data))
        }
    }

    func make(of material: Material, _ task: MakingTask) throws(DipperError) -> Product {
        guard case .bytes(let data) = material else { throw .undecodable }
        return try task.decode { () throws(DipperError) in
            do {
                return try decode(data)
            } catch let error as DipperError {
                throw error
            } catch {
                throw .undecodable.with(detail: Self.text(error)).with(underlying: error)
            }
        }
    }

    /// Describes the failure and the path of the failing key, without values of the data.
    private static func text(_ error: any Error) -> String {
        switch error {
        case DecodingError.keyNotFound(let key, let context): "no \(path(context.codingPath + [key]))"
        case DecodingError.valueNotFound(let type, let context): "no \(type) at \(path(context.codingPath))"
        case DecodingError.typeMismatch(let type, let context): "not \(type) at \(path(context.codingPath))"
        case DecodingError.dataCorrupted(let context): "corrupted at \(path(context.codingPath))"
        default: "\(Swift.type(of: error))"
        }
    }

    /// Returns a path such as `items[3].title`; `the top` for an empty one.
    private static func path(_ keys: [any CodingKey]) -> String {
        let parts = keys.map { key in key.intValue.map { "[\($0)]" } ?? "." + key.stringValue }
        return parts.isEmpty ? "the top" : String(parts.joined().trimmingPrefix("."))
    }
}
