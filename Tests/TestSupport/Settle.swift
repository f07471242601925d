/// Waits until a condition on the work of other threads holds.
///
/// Write `#expect(await settle { … })`, or `try #require(…)` if the rest of the test depends on it, so that a failure
/// shows the condition.
///
/// - Returns: `false` if the condition does not hold within 40 seconds or within the test's time limit. Time in which
///   other tests kept all of Swift's threads busy does not count, because the other threads could not work either.
package func settle(isolation: isolated (any Actor)? = #isolation, _ condition: () -> Bool) async -> Bool {
    var patience = Duration.seconds(40)
    var last = ContinuousClock.now
    var rounds = 0
    while !condition() {
        let now = ContinuousClock.now
        patience -= min(now - last, .milliseconds(100))
        last = now
        if Task.isCancelled || patience <= .zero { return condition() }
        rounds += 1
        // After many rounds, sleep, so that the other threads get the processor.
        if rounds < 1_000 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(1)) }
    }
    return true
}

/// Returns whether a condition on the work of other threads keeps holding.
///
/// The function checks the condition again and again for at least 100 ms, to give an unwanted event the time to happen.
package func stays(isolation: isolated (any Actor)? = #isolation, _ condition: () -> Bool) async -> Bool {
    for _ in 0..<50 {
        for _ in 0..<400 {
            guard condition() else { return false }
            await Task.yield()
        }
        try? await Task.sleep(for: .milliseconds(2))
    }
    return condition()
}
