/// An element of a ``SlotTable``.
protocol SlotElement {
    /// Creates the blank that a free place holds: reading a part of an optional element would copy all of it.
    init()
}

/// A table of elements in numbered places that are used again. Adding, removing and finding an element cost the same
/// whatever the number of elements.
///
/// After most elements have been removed, ``compact()`` gives storage back. It moves elements to other places, so the
/// owner calls it when only the owner's own links hold places.
struct SlotTable<Index: SlotIndex, Element: SlotElement> {
    typealias ID = SlotID<Index>

    fileprivate struct Slot {
        /// The number is 0 while the place is free.
        var id: ID
        var element: Element

        var isFree: Bool { id.number == 0 }
    }

    private var slots: [Slot] = []
    /// Places without an element.
    private var free: [Index] = []
    /// The places of elements that have left their first place.
    private var moved: [ID: Index] = [:]
    private var lastNumber: UInt32 = 0
    /// The number of places that are kept although few of them are used.
    private let leastCapacity: Int
    /// The number of places that compacting has gone through so far, for tests.
    private(set) var compactingSteps = 0

    init(leastCapacity: Int) {
        self.leastCapacity = leastCapacity
    }

    /// The number of elements in the table.
    var count: Int { slots.count - free.count }

    /// The number of elements that there is storage for.
    var capacity: Int { slots.capacity }

    subscript(index: Index) -> Element {
        _read {
            precondition(!slots[Int(index.raw)].isFree, "the place is free")
            yield slots[Int(index.raw)].element
        }
        _modify {
            precondition(!slots[Int(index.raw)].isFree, "the place is free")
            yield &slots[Int(index.raw)].element
        }
    }

    func id(of index: Index) -> ID { slots[Int(index.raw)].id }

    /// Returns the place of an element; `nil` once the element has been removed.
    func index(of id: ID) -> Index? {
        let place = Int(id.index.raw)
        if place < slots.count, slots[place].id == id { return id.index }
        return moved.isEmpty ? nil : moved[id]
    }

    /// The places of all elements, in ascending order.
    var indices: [Index] {
        slots.indices.lazy.filter { !slots[$0].isFree }.map { Index(raw: UInt32($0)) }
    }

    mutating func insert(_ element: Element) -> Index {
        lastNumber = lastNumber == .max ? 1 : lastNumber + 1
        let index = free.popLast() ?? Index(raw: UInt32(slots.count))
        let slot = Slot(id: ID(index: index, number: lastNumber), element: element)
        if Int(index.raw) == slots.count { slots.append(slot) } else { slots[Int(index.raw)] = slot }
        return index
    }

    /// Removes an element and returns it, so that the caller decides where it is released.
    @discardableResult
    mutating func remove(_ index: Index) -> Element {
        precondition(!slots[Int(index.raw)].isFree, "the place is free")
        if !moved.isEmpty { moved[id(of: index)] = nil }
        var slot = Slot(id: ID(index: index, number: 0), element: Element())
        swap(&slot, &slots[Int(index.raw)])
        free.append(index)
        return slot.element
    }

    // MARK: Storage

    /// Whether less than a quarter of the storage is in use.
    var isSparse: Bool { slots.capacity > leastCapacity && count * 4 < slots.capacity }

    /// Moves elements to free places and gives back the storage behind them.
    ///
    /// The cost is one pass over the storage. Afterwards three quarters of the remaining elements must be removed
    /// before the table is sparse again, so that each removal pays for a few places.
    @discardableResult
    mutating func compact() -> SlotMoves<Index> {
        let size = count
        compactingSteps += slots.count
        var moves = SlotMoves(from: Index(raw: UInt32(size)), count: slots.count - size)
        var holes = free.filter { $0.raw < size }
        for place in slots.indices.dropFirst(size) {
            guard !slots[place].isFree, let hole = holes.popLast() else { continue }
            let id = slots[place].id
            slots.swapAt(place, Int(hole.raw))
            moved[id] = id.index == hole ? nil : hole
            moves[Index(raw: UInt32(place))] = hole
        }
        // New collections, because the present ones keep their storage when elements are removed.
        slots = Array(slots.prefix(size))
        free = []
        moved = Dictionary(uniqueKeysWithValues: moved.map { ($0, $1) })
        return moves
    }
}

extension SlotTable: Sendable where Element: Sendable {}
extension SlotTable.Slot: Sendable where Element: Sendable {}
