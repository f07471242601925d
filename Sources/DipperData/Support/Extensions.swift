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

    /// A logger of warnings and errors alone, which go where the logs of the program go.
    static var warnings: Logger {
        var logger = Logger(label: "dipper")
        logger.logLevel = .warning
        return logger
    }

    func category(_ name: String) -> Logger {
        var copy = self
        copy[metadataKey: "category"] = "\(name)"
        return copy
    }
}

/// Calls a closure with an object that its owner keeps alive meanwhile. The reference is not counted: threads that read
/// through one object would wait for one another's counts.
@inline(__always)
func borrowed<Object: AnyObject, Result>(_ object: Object, _ body: (Object) -> Result) -> Result {
    Unmanaged.passUnretained(object)._withUnsafeGuaranteedRef { body($0) }
}

/// The shared instance of a program: the one that was set last, or one that is made when it is first asked for.
package struct Shared<Value: Sendable>: ~Copyable, Sendable {
    private let current = Mutex<Value?>(nil)

    package init() {}

    package func value(orElse make: () -> Value) -> Value {
        current.withLock { current in
            if let current { return current }
            let made = make()
            current = made
            return made
        }
    }

    package func set(_ value: Value) {
        // The old value is released where no lock is held.
        let old = current.withLock { exchange(&$0, with: value) }
        withExtendedLifetime(old) {}
    }
}

/// A table that any thread reads and changes, and that is nearly always empty: then nobody takes its lock.
struct RareTable<Key: Hashable & Sendable, Value: Sendable>: ~Copyable, Sendable {
    private let table = Mutex<[Key: Value]>([:])
    private let isEmpty = Atomic(true)

    init() {}

    subscript(key: @autoclosure () -> Key) -> Value? {
        if isEmpty.load(ordering: .sequentiallyConsistent) { return nil }
        let key = key()
        return table.withLock { $0[key] }
    }

    func change<Result: Sendable>(_ body: (inout [Key: Value]) -> Result) -> Result {
        table.withLock { table in
            // Before the change, so that who reads without the lock meanwhile takes it.
            isEmpty.store(false, ordering: .sequentiallyConsistent)
            defer { isEmpty.store(table.isEmpty, ordering: .sequentiallyConsistent) }
            return body(&table)
        }
    }

    /// Changes a table that has entries. The values that leave it are freed outside the lock.
    func remove(_ select: (inout [Key: Value]) -> [Key]) {
        if isEmpty.load(ordering: .sequentiallyConsistent) { return }
        let removed = change { table in select(&table).map { table.removeValue(forKey: $0) } }
        withExtendedLifetime(removed) {}
    }
}

/// A value outside its owner, which stays small, or can be made later.
package final class Reference<Value: ~Copyable & Sendable>: Sendable {
    package let value: Value

    package init(_ value: consuming Value) { self.value = value }
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

/// A value that one thread gives, at most once, to another that waits for it by other means.
final class Handover<Value: Sendable>: Sendable {
    private let given = Mutex<Value?>(nil)

    var value: Value? { given.withLock { $0 } }

    func give(_ value: Value?) { given.withLock { $0 = value } }
}

/// Waits for another thread's answer, which is given exactly once.
package func fromThread<Value: Sendable>(
    _ ask: (_ answer: @escaping @Sendable (Value?) -> Void) -> Void
) async -> Value? {
    let answer = Handover<Value>()
    await withCheckedContinuation { continuation in
        ask { value in
            answer.give(value)
            continuation.resume()
        }
    }
    return answer.value
}

extension UnsafeRawBufferPointer {
    func loadLE<Value: FixedWidthInteger>(_ type: Value.Type, at offset: Int) -> Value {
        Value(littleEndian: loadUnaligned(fromByteOffset: offset, as: type))
    }
}
