import Foundation

/// The step that decodes a value: one for each type and decoder.
final class ValueStep: ObjectStep {
    /// It holds in this process only, as values are kept in memory only.
    let suffix: String
    private let decode: @Sendable (Data) throws -> Product

    init<Value: Decodable & Sendable>(_ type: Value.Type, _ decoder: some ValueDecoder) {
        let (number, name) = (UInt(bitPattern: ObjectIdentifier(type)), decoder.identifier)
        suffix = "\n#value \(number) \(name.utf8.count):\(name)"
        decode = { data in
            let value = try decoder.decode(Value.self, from: data)
            return ProductOf(value, cost: decoder.cost(of: value, decodedFrom: data))
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
                throw .undecodable.with(detail: Self.text(error))
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
        guard !keys.isEmpty else { return "the top" }
        var text = ""
        for key in keys {
            if let index = key.intValue {
                text += "[\(index)]"
            } else {
                text += text.isEmpty ? key.stringValue : "." + key.stringValue
            }
        }
        return text
    }
}
