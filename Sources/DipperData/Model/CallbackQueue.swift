import Dispatch

/// Where the closures given to a task run.
///
/// The closures of one task run one at a time and in the order of what they tell, on every kind of queue.
public struct CallbackQueue: Sendable {
    package let run: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

    package func perform(_ work: @escaping @Sendable () -> Void) {
        if let run { run(work) } else { work() }
    }

    /// In place: on whichever thread learns of the event, often one that moves bytes. Only for closures that
    /// return at once.
    public static let inPlace = CallbackQueue(run: nil)

    /// On a Dispatch queue; a concurrent one is fine.
    public static func dispatch(_ queue: DispatchQueue) -> CallbackQueue {
        CallbackQueue { work in queue.async(execute: work) }
    }

    /// Through the caller's own function, such as an idle call of a user interface's loop.
    public static func custom(_ run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) -> CallbackQueue {
        CallbackQueue(run: run)
    }

    /// A serial queue of its own.
    public static func serial(label: String = "dipper.callbacks") -> CallbackQueue {
        .dispatch(DispatchQueue(label: label))
    }
}
