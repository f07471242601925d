import Dispatch
import Foundation
import Synchronization

/// Clean-up actions, for mounts and servers, that run however the program ends.
enum CleanUp {
    private struct State: Sendable {
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private static let state = Mutex(State())

    /// Adds an action and returns its number for ``run(_:)``.
    static func add(_ action: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.next += 1
            state.actions[state.next] = action
            return state.next
        }
    }

    /// Runs an action, at most once.
    static func run(_ number: Int) {
        let action = state.withLock { $0.actions.removeValue(forKey: number) }
        action?()
    }

    /// Runs all actions, the latest first.
    static func all() {
        while let number = state.withLock({ $0.actions.keys.max() }) { run(number) }
    }

    static func installSignalHandlers() {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                // The handler keeps the source alive for as long as the program runs.
                withExtendedLifetime(source) { all() }
                exit(128 + number)
            }
            source.resume()
        }
    }
}
