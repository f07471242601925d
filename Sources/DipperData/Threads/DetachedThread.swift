import Foundation

/// A thread that nobody waits for: for work that may never end.
enum DetachedThread {
    private final class Body {
        let name: String
        let run: () -> Void

        init(_ name: String, _ run: @escaping () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// - Parameter name: shown by `top -H` and debuggers; at most 15 bytes count.
    /// - Returns: false, and nothing is run, if the system gives no thread.
    static func start(name: String, _ run: @escaping @Sendable () -> Void) -> Bool {
        let body = Unmanaged.passRetained(Body(name, run))
        var handle = pthread_t()
        let result = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let body = Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                Thread.current.name = body.name
                body.run()
                return nil
            }, body.toOpaque())
        guard result == 0 else {
            body.release()
            return false
        }
        pthread_detach(handle)
        return true
    }
}
