import DipperData
import Synchronization

/// A state that a test sets. After each change its observers are called, before the change returns.
final class ObservedState<State: Equatable & Sendable>: Sendable {
    private struct Contents {
        var state: State
        var observers = Observers()
    }

    private let contents: Mutex<Contents>

    init(_ state: State) {
        contents = Mutex(Contents(state: state))
    }

    var value: State { contents.withLock { $0.state } }

    var observerCount: Int { contents.withLock { $0.observers.count } }

    func change(_ body: (inout State) -> Void) {
        let observers = contents.withLock { contents -> [Observers.Callback] in
            let old = contents.state
            body(&contents.state)
            return contents.state == old ? [] : contents.observers.all
        }
        for observer in observers { observer() }
    }

    func observe(_ onChange: @escaping @Sendable () -> Void) -> ChangeObservation {
        let number = contents.withLock { $0.observers.add(onChange) }
        return ChangeObservation { [weak self] in
            let observer = self?.contents.withLock { $0.observers.remove(number) }
            _ = consume observer
        }
    }
}
