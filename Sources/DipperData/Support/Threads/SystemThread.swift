import Foundation

/// The system's threads. Each is to be joined or detached once.
enum SystemThread {
    /// The error of a system that gives no thread.
    struct Refusal: Error {
        let code: CInt
    }

    private final class Body {
        let name: String
        let run: () -> Void

        init(_ name: String, _ run: @escaping () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Starts a thread.
    /// - Parameter name: the thread's name, shown by `top -H` and debuggers; at most 15 bytes count.
    /// - Returns: the thread, which runs the body; or the reason why the body does not run.
    static func start(name: String, _ run: @escaping @Sendable () -> Void) -> Result<pthread_t, Refusal> {
        let body = Unmanaged.passRetained(Body(name, run))
        var handle = pthread_t()
        let code = pthread_create(
            &handle, nil,
            { context in
                guard let context else { return nil }
                let body = Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                Thread.current.name = body.name
                body.run()
                return nil
            }, body.toOpaque())
        guard code == 0 else {
            body.release()
            return .failure(Refusal(code: code))
        }
        return .success(handle)
    }

    /// Starts a thread that nobody waits for, for work that may never end.
    /// - Returns: `false` if the system gives no thread; the body then does not run.
    static func startDetached(name: String, _ run: @escaping @Sendable () -> Void) -> Bool {
        guard case .success(let handle) = start(name: name, run) else { return false }
        pthread_detach(handle)
        return true
    }
}
