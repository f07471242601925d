/// A binary heap, whose least element is found in constant time, and taken in the logarithm of their number.
struct Heap<Element: Comparable> {
    /// The elements in no useful order.
    private(set) var unordered: [Element] = []

    init() {}

    init(_ elements: some Sequence<Element>) {
        unordered = Array(elements)
        for index in (0..<unordered.count / 2).reversed() { sink(index) }
    }

    var count: Int { unordered.count }
    var min: Element? { unordered.first }

    mutating func insert(_ element: Element) {
        var index = unordered.count
        unordered.append(element)
        while index > 0, case let parent = (index - 1) / 2, element < unordered[parent] {
            unordered.swapAt(index, parent)
            index = parent
        }
    }

    @discardableResult
    mutating func popMin() -> Element? {
        guard let last = unordered.popLast() else { return nil }
        guard let least = unordered.first else { return last }
        unordered[0] = last
        sink(0)
        return least
    }

    private mutating func sink(_ start: Int) {
        var index = start
        while case var child = 2 * index + 1, child < unordered.count {
            if child + 1 < unordered.count, unordered[child + 1] < unordered[child] { child += 1 }
            guard unordered[child] < unordered[index] else { return }
            unordered.swapAt(index, child)
            index = child
        }
    }
}

extension Heap: Sendable where Element: Sendable {}
