internal import Foundation

/// Returns how much of a long test to run: all of it, or the percentage in the environment variable `DIPPER_WORKLOAD`,
/// for sanitizers, which make tests many times slower.
package func workload(_ size: Int) -> Int {
    let percent = ProcessInfo.processInfo.environment["DIPPER_WORKLOAD"].flatMap(Int.init) ?? 100
    return max(1, size * percent / 100)
}

/// Random numbers that follow from a seed (SplitMix64), so that a failure can be repeated.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(_ seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    package mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// Returns `true` once in `count` calls.
    package mutating func chance(_ count: Int) -> Bool { below(count) == 0 }
}
