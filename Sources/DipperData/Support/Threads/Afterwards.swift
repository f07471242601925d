import Foundation

/// Code of the program's own, such as hooks, that a thread runs once it has stopped carrying out actions. Such code may
/// take long, and may wait for what the thread would carry out next.
///
/// A thread may carry out actions of several engines, one inside the other. It runs the code after all of them.
package enum Afterwards {
    package typealias Step = @Sendable () -> Void

    /// The steps that wait on each thread; `nil` on a thread that carries out no actions.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static var waiting: UnsafeMutablePointer<[Step]>? {
        pthread_getspecific(key)?.assumingMemoryBound(to: [Step].self)
    }

    /// Runs a step when this thread has stopped carrying out actions; at once if it carries out none.
    package static func run(_ step: @escaping Step) {
        if let waiting { waiting.pointee.append(step) } else { step() }
    }

    /// Runs a closure that carries out actions.
    /// - Returns: the steps that the caller runs next. If this thread carries out other actions around these, there are
    ///   none: the steps wait for the end of the others.
    static func collect(_ body: () -> Void) -> [Step] {
        var collected: [Step] = []
        if waiting != nil {
            body()
        } else {
            withUnsafeMutablePointer(to: &collected) { pointer in
                pthread_setspecific(key, pointer)
                body()
                pthread_setspecific(key, nil)
            }
        }
        return collected
    }
}
