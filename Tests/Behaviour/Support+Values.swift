import Dispatch
import DipperData
import Foundation
import TestSupport

struct Feed: Codable, Sendable, Equatable {
    struct Item: Codable, Equatable { var name: String }
    var items: [Item]

    static let sample = Feed("one", "two")
    static let empty = Feed()
    static let broken = Data("nonsense".utf8)

    init(_ names: String...) { items = names.map(Item.init) }

    var bytes: Data { (try? JSONEncoder().encode(self)) ?? Data() }
}

/// A decoder of JSON that counts the values that it is asked for, and holds each of them until the test lets it go on.
struct CountingValueDecoder: ValueDecoder {
    let identifier: String
    let isHeld: Bool
    let decodes = Box(0)
    private let inside = DispatchSemaphore(value: 0)

    init(_ identifier: String = "counting", isHeld: Bool = false) {
        self.identifier = identifier
        self.isHeld = isHeld
    }

    func release(_ count: Int = 1) { for _ in 0..<count { inside.signal() } }

    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        decodes.update { $0 += 1 }
        if isHeld { inside.wait() }
        return try JSONDecoder().decode(type, from: data)
    }
}
