import Testing

@testable import DipperData

@Suite("Queues and heaps", .timeLimit(.minutes(1)))
struct CollectionTests {
    @Test("a deque does what an array does, whatever is added, taken and removed")
    func deque() {
        var numbers = SystemRandomNumberGenerator()
        for _ in 0..<50 {
            var (deque, array): (Deque<Int>, [Int]) = ([], [])
            for step in 0..<400 {
                switch Int.random(in: 0..<8, using: &numbers) {
                case 0, 1, 2:
                    deque.append(step)
                    array.append(step)
                case 3:
                    deque.prepend(step)
                    array.insert(step, at: 0)
                case 4:
                    #expect(deque.popFirst() == (array.isEmpty ? nil : array.removeFirst()))
                case 5:
                    guard let index = array.indices.randomElement(using: &numbers) else { continue }
                    #expect(deque.remove(at: index) == array.remove(at: index))
                case 6:
                    deque.append(contentsOf: [step, -step])
                    array += [step, -step]
                default:
                    deque.removeAll { $0 % 7 == 0 }
                    array.removeAll { $0 % 7 == 0 }
                }
                #expect(Array(deque) == array)
            }
        }
    }

    @Test("a deque lets go of what was taken out of it")
    func released() {
        final class Thing {}
        var deque = Deque<Thing>()
        var things = (0..<6).map { _ in Thing() }
        deque.append(contentsOf: things)
        let leaving = [0, 2, 3].map { index in { [weak thing = things[index]] in thing } }
        _ = deque.popFirst()
        _ = deque.remove(at: 1)
        deque.removeAll { $0 === things[3] }
        things = []
        #expect(leaving.allSatisfy { $0() == nil })
        #expect(deque.count == 3)
    }

    @Test("a heap gives its elements in order, whatever was inserted and taken between")
    func heap() {
        var numbers = SystemRandomNumberGenerator()
        for count in 0..<100 {
            let first = (0..<count).map { _ in Int.random(in: 0..<50, using: &numbers) }
            var heap = Heap(first)
            var sorted = first.sorted()
            for _ in 0..<20 {
                let number = Int.random(in: 0..<50, using: &numbers)
                heap.insert(number)
                sorted = (sorted + [number]).sorted()
                if Bool.random(using: &numbers) { #expect(heap.popMin() == sorted.removeFirst()) }
                #expect(heap.min == sorted.first && heap.count == sorted.count)
            }
            #expect(heap.unordered.sorted() == sorted)
            #expect(sorted.map { _ in heap.popMin() } == sorted)
            #expect(heap.popMin() == nil && heap.min == nil)
        }
    }
}
