/// A queue in a ring: elements are added and taken at both ends in constant time.
package struct Deque<Element>: RandomAccessCollection, ExpressibleByArrayLiteral {
    // The number of slots is a power of two, or zero.
    private var slots: [Element?] = []
    private var head = 0
    package private(set) var count = 0

    package init() {}

    package init(_ elements: some Sequence<Element>) { append(contentsOf: elements) }

    package init(arrayLiteral elements: Element...) { self.init(elements) }

    package var startIndex: Int { 0 }
    package var endIndex: Int { count }

    package subscript(index: Int) -> Element {
        guard (0..<count).contains(index), let element = slots[slot(index)] else {
            preconditionFailure("index out of range")
        }
        return element
    }

    private func slot(_ index: Int) -> Int { (head + index) & (slots.count - 1) }

    package mutating func append(_ element: Element) {
        makeRoom()
        slots[slot(count)] = element
        count += 1
    }

    package mutating func append(contentsOf elements: some Sequence<Element>) {
        for element in elements { append(element) }
    }

    mutating func prepend(_ element: Element) {
        makeRoom()
        head = slot(-1)
        slots[head] = element
        count += 1
    }

    package mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        defer {
            head = slot(1)
            count -= 1
        }
        return slots[head].take()
    }

    @discardableResult
    mutating func remove(at index: Int) -> Element {
        let removed = self[index]
        // The shorter side moves.
        if index < count / 2 {
            for index in stride(from: index, to: 0, by: -1) { slots[slot(index)] = slots[slot(index - 1)] }
            slots[head] = nil
            head = slot(1)
        } else {
            for index in index..<count - 1 { slots[slot(index)] = slots[slot(index + 1)] }
            slots[slot(count - 1)] = nil
        }
        count -= 1
        return removed
    }

    mutating func removeAll(where isRemoved: (Element) throws -> Bool) rethrows {
        self = try Deque(filter { try !isRemoved($0) })
    }

    private mutating func makeRoom() {
        guard count == slots.count else { return }
        let room = [Element?](repeating: nil, count: Swift.max(8, count))
        slots = slots[head...] + slots[..<head] + room
        head = 0
    }
}

extension Deque: Sendable where Element: Sendable {}

/// An array whose first element takes no memory of its own.
struct ArrayOfFew<Element>: RandomAccessCollection, MutableCollection {
    private var first: Element?
    private var others: [Element] = []

    var startIndex: Int { 0 }
    var endIndex: Int { first == nil ? 0 : 1 + others.count }

    subscript(index: Int) -> Element {
        get {
            if index > 0 { return others[index - 1] }
            guard index == 0, let first else { preconditionFailure("index out of range") }
            return first
        }
        set {
            precondition(indices.contains(index), "index out of range")
            if index > 0 { others[index - 1] = newValue } else { first = newValue }
        }
    }

    mutating func append(_ element: Element) {
        if first == nil { first = element } else { others.append(element) }
    }
}

extension ArrayOfFew: Sendable where Element: Sendable {}
