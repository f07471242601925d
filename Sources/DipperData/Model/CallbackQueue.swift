import Dispatch

/// The queue on which the closures given to a task run.
///
/// On every kind of queue, the closures of one task run one at a time, in the order of the events that they report.
public struct CallbackQueue: Sendable {
    package let run: (@Sendable (@escaping @Sendable () -> Void) -> Void)?

    package func perform(_ work: @escaping @Sendable () -> Void) {
        if let run { run(work) } else { work() }
    }

    /// A queue that runs closures in place, on the thread that learns of the event, which often moves bytes or delivers
    /// what other calls read from disk. Only for closures that return at once and wait for nothing.
    ///
    /// ```swift
    /// cache.getData(DataRequest(url).with(\.callbackQueue, .inPlace)) { data in print(data.count) }
    /// ```
    public static let inPlace = CallbackQueue(run: nil)

    /// Returns a queue that runs closures on a Dispatch queue, which may be concurrent.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration()
    /// configuration.callbackQueue = .dispatch(.main)
    /// ```
    public static func dispatch(_ queue: DispatchQueue) -> CallbackQueue {
        CallbackQueue { work in queue.async(execute: work) }
    }

    /// Returns a queue that passes each closure to the caller's own function, such as an idle call of a user
    /// interface's loop.
    ///
    /// ```swift
    /// var configuration = DataCache.Configuration()
    /// configuration.callbackQueue = .custom { work in RunLoop.main.perform(work) }
    /// ```
    public static func custom(_ run: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) -> CallbackQueue {
        CallbackQueue(run: run)
    }

    /// Returns a new serial queue.
    public static func serial(label: String = "dipper.callbacks") -> CallbackQueue {
        .dispatch(DispatchQueue(label: label))
    }
}
