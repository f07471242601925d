import Foundation
import Synchronization

/// Prints a line without buffering, even into a pipe.
func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

/// Returns the time of the monotonic clock, in seconds.
func monotonicSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
}

func seconds(_ body: () throws -> Void) rethrows -> Double {
    let start = monotonicSeconds()
    try body()
    return monotonicSeconds() - start
}

func seconds(_ body: () async throws -> Void) async rethrows -> Double {
    let start = monotonicSeconds()
    try await body()
    return monotonicSeconds() - start
}

/// Runs a closure on a number of threads at once, and returns the seconds from their common start to the end of the
/// last.
func seconds(threads count: Int, _ body: @escaping @Sendable (_ thread: Int) -> Void) -> Double {
    let arrived = DispatchSemaphore(value: 0)
    let gate = Gate()
    let group = DispatchGroup()
    for number in 0..<count {
        group.enter()
        Thread {
            arrived.signal()
            while !gate.isOpen.load(ordering: .acquiring) {}
            body(number)
            group.leave()
        }.start()
    }
    for _ in 0..<count { arrived.wait() }
    let start = monotonicSeconds()
    gate.isOpen.store(true, ordering: .releasing)
    group.wait()
    return monotonicSeconds() - start
}

private final class Gate: Sendable {
    let isOpen = Atomic(false)
}

/// Returns addresses of pictures, as they are in practice.
func sampleURLs(_ count: Int) -> [URL] {
    (0..<count).compactMap { URL(string: "https://images.example.com/photos/2024/\($0)/thumbnail.jpg?w=400") }
}

/// Keeps the optimizer from removing work whose result is unused.
@inline(never)
func keep<Value>(_ value: Value) {}

/// A random number generator that yields the same numbers in each run.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        // SplitMix64.
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func bytes(_ count: Int) -> Data {
        var data = Data(capacity: count + 8)
        while data.count < count { Swift.withUnsafeBytes(of: next()) { data.append(contentsOf: $0) } }
        return Data(data.prefix(count))
    }

    /// Returns a name that looks like a SHA-256 in hexadecimal digits.
    mutating func digestName() -> String {
        (0..<4).map { _ in String(format: "%016lx", UInt(next())) }.joined()
    }
}
