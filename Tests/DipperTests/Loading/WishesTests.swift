import TestSupport
import Testing

@testable import Dipper

@Suite("Those who wait for a picture, and how urgent it is", .timeLimit(.minutes(5)))
struct WishesTests {
    private final class Waiter: Sendable {}

    /// Counts the reads of a wish.
    private struct CountedWish: Urgency {
        @TaskLocal static var reads = Box(0)
        let queue: FetchQueue
        private let own: Priority

        init(queue: FetchQueue, priority: Priority) {
            self.queue = queue
            own = priority
        }

        var priority: Priority {
            Self.reads.update { $0 += 1 }
            return own
        }
    }

    @Test("whoever comes, goes or changes their mind, the strongest wish is that of all who wait")
    func model() {
        var random = SystemRandomNumberGenerator()
        var wishes = Wishes<Waiter, Wish>()
        var model: [(waiter: Waiter, wish: Wish)] = []
        for _ in 0..<20_000 {
            let wish = Wish(queue: Bool.random() ? .fast : .slow, priority: Priority(Double(Int.random(in: 0...4)) / 4))
            switch Int.random(in: 0..<3, using: &random) {
            case 0 where model.count < 30:
                model.append((Waiter(), wish))
                wishes.set(model[model.count - 1].waiter, wish)
            case 1 where !model.isEmpty:
                let index = model.indices.randomElement() ?? 0
                model[index].wish = wish
                wishes.set(model[index].waiter, wish)
            case 2 where !model.isEmpty:
                let waiter = model.remove(at: model.indices.randomElement() ?? 0).waiter
                let (first, second) = (wishes.remove(waiter), wishes.remove(waiter))
                #expect(first && !second && !wishes.contains(waiter))
            default: continue
            }
            #expect(wishes.isEmpty == model.isEmpty)
            #expect(wishes.strongest.queue == (model.contains { $0.wish.queue == .fast } ? .fast : .slow))
            #expect(wishes.strongest.priority == model.map(\.wish.priority).max() ?? .normal)
            #expect(wishes.all.map(ObjectIdentifier.init) == model.map { ObjectIdentifier($0.waiter) })
        }
    }

    @Test("coming, going and changing one's mind looks at one's own wish alone, however many wait")
    func steps() {
        let reads = Box(0)
        CountedWish.$reads.withValue(reads) {
            var wishes = Wishes<Waiter, CountedWish>()
            let waiters = (0..<5_000).map { _ in Waiter() }
            func cost(_ change: (inout Wishes<Waiter, CountedWish>) -> Void) -> Int {
                let before = reads.value
                change(&wishes)
                _ = wishes.strongest
                return reads.value - before
            }
            for (number, waiter) in waiters.enumerated() {
                let priority = Priority(Double(number % 101) / 100)
                let come = cost { $0.set(waiter, CountedWish(queue: .slow, priority: priority)) }
                #expect(come == 1)
            }
            for waiter in waiters {
                let changed = cost { $0.set(waiter, CountedWish(queue: .fast, priority: .high)) }
                #expect(changed == 2)
            }
            for waiter in waiters {
                let gone = cost { $0.remove(waiter) }
                #expect(gone == 1)
            }
            #expect(wishes.isEmpty && reads.value == 4 * waiters.count)
        }
    }
}
