import Synchronization

/// A counter of an algorithm's steps, with which a test checks the cost by a number and not by a time.
package final class StepCounter: Sendable {
    private let steps = Atomic(0)

    package init() {}

    /// The number of steps so far.
    package var count: Int { steps.load(ordering: .relaxed) }

    package func add(_ steps: Int) { self.steps.wrappingAdd(steps, ordering: .relaxed) }
}
