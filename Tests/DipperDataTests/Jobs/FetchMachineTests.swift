import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("What an engine counts and notes beside its scheduler", .timeLimit(.minutes(5)))
struct FetchMachineTests {
    private func call(_ request: DataRequest) -> Call {
        let configuration = DataCache.Configuration()
        return Call(
            request, key: request.cacheKey,
            defaults: .init(
                cachePolicy: configuration.cachePolicy, freshness: configuration.freshness,
                retryPolicy: configuration.retryPolicy, timeout: nil, callbackQueue: .inPlace))
    }

    // MARK: The budget for bodies

    @Test("parked jobs keep at most a quarter of the budget, and what one of them keeps counts once")
    func parking() {
        var bodies = BodyBudget(limit: 100)
        bodies.take(60)
        let first = bodies.park(20, insteadOf: 60)
        #expect(first && bodies.used == 20 && bodies.parked == 20)
        bodies.take(30)
        let second = bodies.park(6, insteadOf: 30)
        #expect(!second && bodies.used == 20 && bodies.parked == 20)
        let third = bodies.park(5, insteadOf: 0)
        #expect(third && bodies.used == 25 && bodies.parked == 25)
        bodies.unpark(20)
        #expect(bodies.used == 25 && bodies.parked == 5)
        bodies.end(held: 20, parked: 5)
        #expect(bodies.used == 0 && bodies.parked == 0)
    }

    @Test("the scheduler hears when the budget has been spent and when it is free again, and of nothing else")
    func spending() {
        var machine = FetchMachine(.init(), inFlightLimit: 100)
        var actions: [FetchMachine.Scheduler.Action] = []
        let steps: [(bytes: Int, isSpent: Bool)] = [(99, false), (1, true), (-20, true), (-5, false), (10, false)]
        for step in steps {
            machine.account(into: &actions) { $0.take(step.bytes) }
            #expect(machine.scheduler.intake.isBudgetSpent == step.isSpent, "after \(step.bytes)")
        }
        #expect(machine.bodies.used == 85 && actions.isEmpty)
    }

    // MARK: Revalidation

    @Test("an answer that is out of date is renewed by one task at a time, for each set of header fields")
    func revalidations() {
        let plain = call(DataRequest(url("a")))
        let other = call(DataRequest(url("a")).with(\.headers, ["Accept": "text/plain"]).with(\.key, plain.key))
        var tasks = RevalidationTasks()
        let first = tasks.task(for: plain)
        let again = tasks.task(for: call(DataRequest(url("a"))))
        let second = tasks.task(for: other)
        #expect(first.isNew && !again.isNew && again.task === first.task)
        #expect(second.isNew && second.task !== first.task && first.task.isRevalidation)
        // A task that has been forgotten, or that was never known, takes no other one's place away.
        let unknown = tasks.forget(DataTask(plain, queue: .slow, isRevalidation: true))
        let dropped = tasks.forget(first.task)
        let twice = tasks.forget(first.task)
        #expect(unknown == nil && dropped === first.task && twice == nil && !tasks.isEmpty)
        let next = tasks.task(for: plain)
        #expect(next.isNew && next.task !== first.task)
        _ = tasks.forget(next.task)
        _ = tasks.forget(second.task)
        #expect(tasks.isEmpty)
    }
}
