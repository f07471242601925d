import Foundation
import Testing

@testable import DipperData

@Suite("When a tier rests, and which changes wait for it", .timeLimit(.minutes(1)))
struct TierRuleTests {
    @Test("three failures in a row begin a rest, each failed trial doubles it, and a success ends it")
    func rests() {
        var health = TierHealth()
        func admits(at now: Duration) -> Bool { health.admits(at: now) }
        func beginsToRest(at now: Duration) -> Bool { health.failed(at: now) }

        for _ in 0..<2 { #expect(!beginsToRest(at: .zero)) }
        health.succeeded()
        for _ in 0..<2 { #expect(!beginsToRest(at: .zero)) }
        #expect(admits(at: .zero))
        #expect(beginsToRest(at: .zero))
        #expect(!admits(at: .milliseconds(999)))
        // Operations from before the rest change nothing.
        #expect(!beginsToRest(at: .milliseconds(10)))
        #expect(health.restsUntil == .seconds(1))
        var end = Duration.seconds(1)
        for expected in [2, 4, 8, 16, 32, 60, 60] {
            #expect(admits(at: end))
            #expect(!admits(at: end), "one operation tries")
            #expect(!beginsToRest(at: end))
            end += .seconds(expected)
            #expect(health.restsUntil == end)
        }
        #expect(admits(at: end))
        health.succeeded()
        #expect(admits(at: end))
        #expect(health.restsUntil == nil)
    }

    private func record(_ count: Int) -> TierChanges.Change { .store(Data(count: count), until: nil) }

    @Test("the latest change of a name replaces one that waits, and two of one name never run at once")
    func order() {
        var changes = TierChanges(limit: 100)
        func dropped(adding change: TierChanges.Change) -> Int { changes.add(change, to: "a").count }
        func next() -> String? { changes.next()?.name }

        #expect(dropped(adding: record(10)) == 0)
        #expect(dropped(adding: record(20)) == 1)
        #expect(changes.size == 20)
        #expect(next() == "a")
        #expect(dropped(adding: .remove) == 0)
        #expect(next() == nil, "the record is still being stored")
        guard case .remove = changes["a"] else {
            Issue.record("the removal is the latest")
            return
        }
        let ended = changes.ended("a", isLost: false)
        #expect(ended != nil && changes.size == 0)
        #expect(next() == "a")
        #expect(next() == nil)
        _ = changes.ended("a", isLost: false)
        #expect(changes.isEmpty)
    }

    @Test("a record for which there is no room is not stored; a removal that failed waits again")
    func limits() {
        var changes = TierChanges(limit: 100)
        func next() -> String? { changes.next()?.name }

        _ = changes.add(record(60), to: "a")
        let refused = changes.add(record(60), to: "b")
        #expect(refused.count == 1 && changes["b"] == nil && changes.size == 60)
        _ = changes.add(.remove, to: "c")
        let dropped = changes.dropRecords()
        #expect(dropped.count == 1 && changes.size == 0)
        #expect(next() == "c")
        _ = changes.ended("c", isLost: true)
        #expect(next() == "c")
        for number in 0..<6 { _ = changes.add(.remove, to: "\(number)") }
        var running = 1
        while changes.next() != nil { running += 1 }
        #expect(running == TierChanges.mostRunning)
    }
}
