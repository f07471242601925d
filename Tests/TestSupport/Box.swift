import Synchronization

/// A thread-safe value that closures change and the test reads.
package final class Box<Value: Sendable>: Sendable {
    private let state: Mutex<Value>

    package init(_ value: Value) { state = Mutex(value) }

    package var value: Value { state.withLock { $0 } }
    package func update(_ body: (inout Value) -> Void) { state.withLock { body(&$0) } }
}
