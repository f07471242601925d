import CXXHash
import Foundation
import Logging
import Synchronization

extension Data {
    /// A hash that is the same in every process.
    var digest: UInt64 { withUnsafeBytes { dipper_xxh3_seeded($0.baseAddress, $0.count, 0) } }
}

extension Logger {
    static let silent = Logger(label: "dipper") { _ in SwiftLogNoOpLogHandler() }

    func category(_ name: String) -> Logger {
        var copy = self
        copy[metadataKey: "category"] = "\(name)"
        return copy
    }
}

/// A value outside its owner, so that an owner without it is small.
struct Boxed<Value: Sendable>: Sendable {
    private final class Storage: @unchecked Sendable {
        var value: Value

        init(_ value: Value) { self.value = value }
    }

    private var storage: Storage

    init(_ value: Value) { storage = Storage(value) }

    static func === (a: Self, b: Self) -> Bool { a.storage === b.storage }

    var value: Value {
        @inline(__always) _read { yield storage.value }
        @inline(__always) _modify {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.value) }
            yield &storage.value
        }
    }
}

package func exchange<Value>(_ place: inout Value, with value: Value) -> Value {
    let old = place
    place = value
    return old
}

/// Waits for another thread's answer, which is given exactly once.
func fromThread<Value: Sendable>(_ ask: (_ answer: @escaping @Sendable (Value?) -> Void) -> Void) async -> Value? {
    // For Thread Sanitizer, which does not see that a continuation orders memory.
    let answer = Mutex<Value?>(nil)
    await withCheckedContinuation { continuation in
        ask { value in
            answer.withLock { $0 = value }
            continuation.resume()
        }
    }
    return answer.withLock { $0 }
}
