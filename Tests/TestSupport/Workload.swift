internal import Foundation
package import TortureSupport

/// Returns how much of a long test to run: all of it, or the percentage in the environment variable `DIPPER_WORKLOAD`: less
/// for sanitizers, which make tests many times slower, or a hundred times as much.
package func workload(_ size: Int) -> Int { max(1, size * percent / 100) }

/// Returns the time, in minutes, that a test may take whose work is a ``workload(_:)``, of which all may take the given time.
package func timeLimit(_ minutes: Int) -> Int { max(minutes, workload(minutes)) }

private let percent = ProcessInfo.processInfo.environment["DIPPER_WORKLOAD"].flatMap(Int.init) ?? 100

/// Random numbers that follow from a seed, so that a failure can be repeated.
package typealias SeededRandom = TortureSupport.SeededRandom

extension SeededRandom {
    /// Returns `true` once in `count` calls.
    package mutating func chance(_ count: Int) -> Bool { oneIn(count) }
}
