import Dispatch
import Foundation
import Synchronization

/// What must be undone however the program ends: mounts and servers.
enum CleanUp {
    private struct State: Sendable {
        var next = 0
        var actions: [Int: @Sendable () -> Void] = [:]
    }

    private static let state = Mutex(State())

    /// The number to give to ``run(_:)``.
    static func add(_ action: @escaping @Sendable () -> Void) -> Int {
        state.withLock { state in
            state.next += 1
            state.actions[state.next] = action
            return state.next
        }
    }

    /// Undoes one thing, once.
    static func run(_ number: Int) {
        let action = state.withLock { $0.actions.removeValue(forKey: number) }
        action?()
    }

    /// Undoes everything, the latest first.
    static func all() {
        while let number = state.withLock({ $0.actions.keys.max() }) { run(number) }
    }

    static func installSignalHandlers() {
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                // Held by its own handler, it lives as long as the program.
                withExtendedLifetime(source) { all() }
                exit(128 + number)
            }
            source.resume()
        }
    }
}
