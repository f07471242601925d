/// An element of a ``SlotTable`` that can be part of one ``SlotList`` at a time.
protocol Linked<Index> {
    associatedtype Index: SlotIndex
    var links: SlotLinks<Index> { get set }
}

/// The neighbours of an element in its list.
struct SlotLinks<Index: SlotIndex>: Sendable {
    @Packed var previous: Index?
    @Packed var next: Index?

    /// Brings the neighbours up to date after elements have been moved.
    mutating func follow(_ moves: SlotMoves<Index>) {
        previous = previous.map { moves[$0] }
        next = next.map { moves[$0] }
    }
}

/// A list that runs through the elements of a ``SlotTable``. Adding and removing cost the same whatever its length.
struct SlotList<Index: SlotIndex>: Sendable {
    @Packed private(set) var first: Index?
    @Packed private(set) var last: Index?

    var isEmpty: Bool { first == nil }

    mutating func append<Element: Linked<Index>>(_ index: Index, in table: inout SlotTable<Index, Element>) {
        table[index].links.previous = last
        table[index].links.next = nil
        if let last { table[last].links.next = index } else { first = index }
        last = index
    }

    mutating func prepend<Element: Linked<Index>>(_ index: Index, in table: inout SlotTable<Index, Element>) {
        table[index].links.previous = nil
        table[index].links.next = first
        if let first { table[first].links.previous = index } else { last = index }
        first = index
    }

    /// Removes an element that is in this list.
    mutating func remove<Element: Linked<Index>>(_ index: Index, in table: inout SlotTable<Index, Element>) {
        let links = table[index].links
        if let previous = links.previous { table[previous].links.next = links.next } else { first = links.next }
        if let next = links.next { table[next].links.previous = links.previous } else { last = links.previous }
        table[index].links = SlotLinks()
    }

    /// Returns the places of the elements, from the first to the last.
    func indices<Element: Linked<Index>>(in table: SlotTable<Index, Element>) -> [Index] {
        var indices: [Index] = []
        var next = first
        while let index = next {
            indices.append(index)
            next = table[index].links.next
        }
        return indices
    }

    /// Brings the ends up to date after elements have been moved.
    mutating func follow(_ moves: SlotMoves<Index>) {
        first = first.map { moves[$0] }
        last = last.map { moves[$0] }
    }
}
