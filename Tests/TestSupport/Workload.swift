internal import Foundation
package import TortureSupport

/// Returns how much of a long test to run: all of it, or the percentage in the environment variable `DIPPER_WORKLOAD`,
/// for sanitizers, which make tests many times slower.
package func workload(_ size: Int) -> Int {
    let percent = ProcessInfo.processInfo.environment["DIPPER_WORKLOAD"].flatMap(Int.init) ?? 100
    return max(1, size * percent / 100)
}

/// Random numbers that follow from a seed, so that a failure can be repeated.
package typealias SeededRandom = TortureSupport.SeededRandom

extension SeededRandom {
    /// Returns `true` once in `count` calls.
    package mutating func chance(_ count: Int) -> Bool { oneIn(count) }
}
