import Dispatch
import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The driver of a state machine", .timeLimit(.minutes(5)))
struct StateDriverTests {
    /// A performer whose actions and rests the test decides.
    private struct Performer<Action: Sendable>: ActionPerformer {
        let act: @Sendable (Action) -> Void
        var leave: @Sendable (@escaping @Sendable () -> Void) -> Void = { rest in
            DispatchQueue.global().async(execute: rest)
        }

        func perform(_ action: Action) { act(action) }
        func handOver(_ rest: @escaping @Sendable () -> Void) { leave(rest) }
    }

    /// A performer that owns its driver. Its action 2 applies an event that brings action 1.
    private final class Owner: ActionPerformer {
        let driver = StateDriver<Int, Int>(0)
        let told = Box<[String]>([])

        func begin(_ numbers: [Int]) { driver.apply(for: self) { _, actions in actions += numbers } }

        func perform(_ action: Int) {
            told.update { $0.append("\(action) begins") }
            if action == 2 { begin([1]) }
            told.update { $0.append("\(action) ends") }
        }

        func handOver(_ rest: @escaping @Sendable () -> Void) { rest() }
    }

    /// An object that tells when it is released.
    private final class Witness: Sendable {
        let onRelease: @Sendable () -> Void
        init(_ onRelease: @escaping @Sendable () -> Void) { self.onRelease = onRelease }
        deinit { onRelease() }
    }

    @Test("actions are performed one at a time, in the order of their events, whichever threads bring them")
    func order() async {
        struct Seen {
            var numbers: [Int] = []
            var inside = 0
            var most = 0
        }
        let (threads, events) = (8, 1_000)
        let driver = StateDriver<Int, Int>(0)
        let seen = Box(Seen())
        let performer = Performer<Int>(act: { number in
            seen.update { seen in
                seen.inside += 1
                seen.most = max(seen.most, seen.inside)
            }
            seen.update { seen in
                seen.numbers.append(number)
                seen.inside -= 1
            }
        })
        for _ in 0..<threads {
            Thread.detachNewThread {
                for _ in 0..<events {
                    driver.apply(for: performer) { last, actions in
                        last += 1
                        actions.append(last)
                    }
                }
            }
        }
        #expect(await settle { seen.value.numbers.count == threads * events })
        #expect(seen.value.numbers == Array(1...threads * events))
        #expect(seen.value.most == 1)
    }

    @Test("the actions of an event that an action applies come after those that were decided before")
    func reentrancy() {
        let owner = Owner()
        owner.begin([2, 0])
        #expect(owner.told.value == ["2 begins", "2 ends", "0 begins", "0 ends", "1 begins", "1 ends"])
    }

    @Test("an event tells its result, with actions or without")
    func result() {
        let driver = StateDriver<Int, Int>(1)
        let performer = Performer<Int>(act: { _ in })
        let changed = driver.apply(for: performer) { number, actions -> Int in
            actions.append(number)
            number += 1
            return number
        }
        let unchanged = driver.apply(for: performer) { number, _ -> Int in number }
        #expect(changed == 2 && unchanged == 2)
    }

    @Test("a thread performs no more than a turn; the rest comes next, in order, wherever it was handed over to")
    func turn() {
        let driver = StateDriver<Int, Int>(0, turn: 3)
        let seen = Box<[Int]>([])
        let rests = Box<[@Sendable () -> Void]>([])
        let performer = Performer<Int>(
            act: { number in seen.update { $0.append(number) } },
            leave: { rest in rests.update { $0.append(rest) } })
        driver.apply(for: performer) { _, actions in actions += [1, 2, 3, 4, 5] }
        #expect(seen.value == [1, 2, 3] && rests.value.count == 1)
        // Later actions wait for the rest, and their thread does not.
        driver.apply(for: performer) { _, actions in actions += [6, 7] }
        #expect(seen.value == [1, 2, 3] && rests.value.count == 1)
        for rest in rests.value { rest() }
        #expect(seen.value == [1, 2, 3, 4, 5, 6] && rests.value.count == 2)
        rests.value.last?()
        #expect(seen.value == [1, 2, 3, 4, 5, 6, 7] && rests.value.count == 2)
        driver.apply(for: performer) { _, actions in actions.append(8) }
        #expect(seen.value.last == 8)
    }

    @Test("actions are released where no lock is held")
    func release() {
        let driver = StateDriver<Int, Witness>(0)
        let performer = Performer<Witness>(act: { _ in })
        driver.apply(for: performer) { _, actions in
            // Under the lock this would wait for ever.
            for _ in 0..<3 { actions.append(Witness { driver.withLock { $0 += 1 } }) }
        }
        #expect(driver.withLock { $0 } == 3)
    }

    @Test("waiting for the end of all actions lasts until the last one, also beyond a turn; without actions, no time")
    func finish() async {
        let driver = StateDriver<Int, Int>(0, turn: 1)
        let (door, performed, waited) = (Door(), Box(0), Box(false))
        let performer = Performer<Int>(act: { _ in
            door.pass()
            performed.update { $0 += 1 }
        })
        await driver.finish()
        Thread.detachNewThread { driver.apply(for: performer) { _, actions in actions += [1, 2] } }
        #expect(await settle { door.arrivals == 1 })
        let waiting = Task {
            await driver.finish()
            waited.update { $0 = true }
            return performed.value
        }
        #expect(await stays { !waited.value })
        door.open()
        #expect(await settle { door.arrivals == 2 })
        #expect(await stays { !waited.value })
        door.open()
        #expect(await waiting.value == 2)
    }

    @Test("a driver keeps its performer while there is a rest, and afterwards neither is left")
    func letGo() {
        let rests = Box<[@Sendable () -> Void]>([])
        let released = Box(0)
        weak var weakDriver: StateDriver<Int, Int>?
        do {
            let driver = StateDriver<Int, Int>(0, turn: 1)
            weakDriver = driver
            let witness = Witness { released.update { $0 += 1 } }
            let performer = Performer<Int>(
                act: { _ in withExtendedLifetime(witness) {} }, leave: { rest in rests.update { $0.append(rest) } })
            driver.apply(for: performer) { _, actions in actions += [1, 2] }
        }
        #expect(released.value == 0 && weakDriver != nil)
        for rest in rests.update({ exchange(&$0, with: []) }) { rest() }
        for rest in rests.update({ exchange(&$0, with: []) }) { rest() }
        #expect(released.value == 1 && weakDriver == nil)
    }
}
