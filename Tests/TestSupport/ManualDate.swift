package import Foundation
import Synchronization

/// A wall clock that only the test advances.
package final class ManualDate: Sendable {
    private let state = Mutex(Date(timeIntervalSince1970: 1_800_000_000))

    package init() {}

    package var now: Date { state.withLock { $0 } }
    package func advance(by seconds: TimeInterval) { state.withLock { $0 += seconds } }
}
