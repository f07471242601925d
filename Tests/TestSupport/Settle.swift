/// Waits for what other threads do, until the condition holds.
///
/// Write `#expect(await settle { … })`, or `try #require(…)` where the rest of the test makes no sense without it: a
/// failure then shows the condition that was waited for.
///
/// - Returns: `false` if the condition does not hold within 40 seconds, or by the time limit of the test.
package func settle(isolation: isolated (any Actor)? = #isolation, _ condition: () -> Bool) async -> Bool {
    let end = ContinuousClock.now + .seconds(40)
    var rounds = 0
    while !condition() {
        if Task.isCancelled || ContinuousClock.now > end { return condition() }
        rounds += 1
        // In the end the processor is left to what is waited for.
        if rounds < 1_000 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(1)) }
    }
    return true
}
