import Foundation
import Synchronization

// Each lock is taken alone, except that a thread that holds DiskTier.staged may take the condition of Workers.
// TaskFeed.log and AnimatedImage.player are held while an `AsyncStream` takes an element, and the writer of an
// EntryIndex during a transaction.

/// Code of the program's own, such as hooks, that a thread runs once it has stopped carrying out actions. Such code may
/// take long, and may wait for what the thread would carry out next.
///
/// A thread may carry out actions of several engines, one inside the other. It runs the code after all of them.
// Only the thread that carries out the actions uses it.
package final class Afterwards: @unchecked Sendable {
    package typealias Step = @Sendable () -> Void

    var steps: [Step] = []
    /// Calls that wake others and return at once, with the queue on which they run, if there is one. Made together, they
    /// wake a thread that waits only once.
    private var wakes: [(queue: DispatchQueue?, step: Step)] = []

    var isEmpty: Bool { steps.isEmpty && wakes.isEmpty }

    /// Wakes those that are to be woken: by one block for all steps in a row that are for the same queue.
    func wake() {
        if wakes.isEmpty { return }
        var rest = exchange(&wakes, with: [])[...]
        while let (queue, step) = rest.popFirst() {
            guard let queue else {
                step()
                continue
            }
            let same = rest.prefix { $0.queue === queue }
            rest = rest.dropFirst(same.count)
            queue.async {
                step()
                for (_, step) in same { step() }
            }
        }
    }

    // MARK: This thread

    /// The list of each thread; `nil` on a thread that carries out no actions.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static var present: Afterwards? {
        pthread_getspecific(key).map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    /// Begins to carry out actions.
    /// - Parameter list: takes what is to be done afterwards. The caller keeps it until ``end()``.
    static func begin(_ list: Afterwards) { pthread_setspecific(key, Unmanaged.passUnretained(list).toOpaque()) }

    static func end() { pthread_setspecific(key, nil) }

    /// Runs a step when this thread has stopped carrying out actions; at once if it carries out none.
    package static func run(_ step: @escaping Step) {
        if let present { present.steps.append(step) } else { step() }
    }

    /// Wakes others when this thread has stopped carrying out actions; at once if it carries out none.
    /// - Parameter queue: the queue on which the step runs; `nil` for a step that returns at once.
    static func wake(on queue: DispatchQueue? = nil, _ step: @escaping Step) {
        if let present {
            present.wakes.append((queue, step))
        } else if let queue {
            queue.async(execute: step)
        } else {
            step()
        }
    }

    /// Runs a closure that carries out actions.
    /// - Returns: the steps that the caller runs next. If this thread carries out other actions around these, there are
    ///   none: the steps wait for the end of the others.
    static func steps(after body: () -> Void) -> [Step] {
        if present != nil {
            body()
            return []
        }
        let list = Afterwards()
        begin(list)
        body()
        end()
        list.wake()
        return list.steps
    }
}
