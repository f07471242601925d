import Foundation

/// The step that decodes a value: one for each type and decoder.
package struct ValueStep: ObjectStep {
    private let type: ObjectIdentifier
    private let decoder: String
    private let decode: @Sendable (Data) throws -> ValueBox

    init<Value: Decodable & Sendable>(_ type: Value.Type, _ decoder: some ValueDecoder) {
        self.type = ObjectIdentifier(type)
        self.decoder = decoder.identifier
        decode = { data in
            let value = try decoder.decode(Value.self, from: data)
            return ValueBox(value, cost: decoder.cost(of: value, decodedFrom: data))
        }
    }

    /// The end of the key of the value. It holds in this process only, as values are kept in memory only.
    var keySuffix: String { "\n#value \(UInt(bitPattern: type)) \(decoder.utf8.count):\(decoder)" }

    func box(from data: Data) throws(DipperError) -> ValueBox {
        do {
            return try decode(data)
        } catch let error as DipperError {
            throw error
        } catch {
            throw .undecodable.with(detail: Self.text(error))
        }
    }

    package static func == (a: Self, b: Self) -> Bool { a.type == b.type && a.decoder == b.decoder }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(type)
        hasher.combine(decoder)
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

/// A value of any type, and the memory it takes.
package struct ValueBox: Sendable {
    let value: any Sendable
    let cost: Int

    init(_ value: any Sendable, cost: Int) {
        self.value = value
        self.cost = cost
    }
}

/// The maker of typed values, which are made in one step.
package struct ValueMaker: ObjectMaker {
    package func make(_ data: Data, by steps: [ValueStep], _ task: MakingTask) throws(DipperError) -> ValueBox {
        guard let step = steps.first else { throw .undecodable }
        return try task.decode { () throws(DipperError) in try step.box(from: data) }
    }

    package func make(
        _ parent: ValueBox, by steps: [ValueStep], _ task: MakingTask
    ) throws(DipperError) -> ValueBox { parent }

    package func cost(of box: ValueBox) -> Int { box.cost }

    package func key(of bytes: CacheKey, _ path: [ValueStep]) -> CacheKey {
        CacheKey(verbatim: path.reduce(bytes.string) { $0 + $1.keySuffix })
    }
}
