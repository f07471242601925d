import Dispatch
import Synchronization

/// The queue on which the closures given to a task run: one at a time, in the order of the events that they report. A
/// closure of the main actor is passed on to the main queue unless it runs on the main thread already. If another loop
/// serves the main thread, such as GTK's, use a ``custom(_:)`` queue of that loop.
public struct CallbackQueue: Sendable {
    package enum Kind: Sendable {
        case inPlace
        case dispatch(DispatchQueue)
        case custom(@Sendable (@escaping @Sendable () -> Void) -> Void)
    }

    package let kind: Kind
    package var pending: PendingWork?

    package var isInPlace: Bool { if case .inPlace = kind { true } else { false } }

    package func perform(_ work: @escaping @Sendable () -> Void) {
        pending?.begin()
        let work: @Sendable () -> Void = { [pending] in
            work()
            pending?.end()
        }
        switch kind {
        case .inPlace: work()
        case .dispatch(let queue): queue.async(execute: work)
        case .custom(let run): run(work)
        }
    }

    /// A queue that runs closures in place: on a thread of the cache's, or on the caller's if memory has the answer.
    /// For closures that return at once and wait for nothing: no prefetch starts before they have returned.
    public static let inPlace = CallbackQueue(kind: .inPlace)

    /// The main queue, which the program must serve: by `dispatchMain()`, `RunLoop.main.run()` or an async `main`.
    public static let main = CallbackQueue.dispatch(.main)

    /// Returns a queue that runs closures on a Dispatch queue, which may be concurrent.
    public static func dispatch(_ queue: DispatchQueue) -> CallbackQueue {
        CallbackQueue(kind: .dispatch(queue))
    }

    /// Returns a queue that passes each closure to a function, such as one that calls it from a user interface's loop.
    public static func custom(_ run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) -> CallbackQueue {
        CallbackQueue(kind: .custom(run))
    }

    /// Returns a new serial queue.
    public static func serial(label: String = "dipper.callbacks") -> CallbackQueue {
        .dispatch(DispatchQueue(label: label))
    }
}

/// The closures of a cache's calls that have not returned yet, counted for callers that wait until there are none.
package final class PendingWork: Sendable {
    private struct State {
        var begun = 0
        var ended = 0
        var waiting: [CheckedContinuation<Int, Never>] = []
    }

    private let state = Mutex(State())

    func begin() { state.withLock { $0.begun += 1 } }

    func end() {
        let (waiting, begun) = state.withLock { state in
            state.ended += 1
            return (state.ended == state.begun ? exchange(&state.waiting, with: []) : [], state.begun)
        }
        for continuation in waiting { continuation.resume(returning: begun) }
    }

    /// Returns when nothing is pending, with the number of closures that had begun by then.
    func settled() async -> Int {
        await withCheckedContinuation { continuation in
            let begun = state.withLock { state -> Int? in
                if state.ended == state.begun { return state.begun }
                state.waiting.append(continuation)
                return nil
            }
            if let begun { continuation.resume(returning: begun) }
        }
    }

    var begun: Int { state.withLock { $0.begun } }
}
