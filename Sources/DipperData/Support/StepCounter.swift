import Synchronization

/// Counts steps of an algorithm, so that a test asserts what it costs by a number and not by a time.
package final class StepCounter: Sendable {
    private let steps = Atomic(0)

    package init() {}

    /// Steps so far.
    package var count: Int { steps.load(ordering: .relaxed) }

    package func add(_ steps: Int) { self.steps.wrappingAdd(steps, ordering: .relaxed) }
}
