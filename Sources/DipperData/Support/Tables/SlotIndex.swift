/// The number of a place in a ``SlotTable``. Tables of different things have different index types, so that the
/// compiler keeps them apart.
protocol SlotIndex: Hashable, Sendable {
    var raw: UInt32 { get }
    init(raw: UInt32)
}

/// The identity of an element of a ``SlotTable``. The identity stays the same when the element is moved to another
/// place, and no later element has it.
struct SlotID<Index: SlotIndex>: Hashable, Sendable {
    /// The first place of the element.
    let index: Index
    /// A number that distinguishes the elements that have this place one after the other.
    let number: UInt32
}

/// An optional place in four bytes instead of eight.
@propertyWrapper
struct Packed<Index: SlotIndex>: Hashable, Sendable {
    private var raw = UInt32.max

    init() {}

    init(wrappedValue: Index?) { raw = wrappedValue?.raw ?? .max }

    var wrappedValue: Index? {
        get { raw == .max ? nil : Index(raw: raw) }
        set { raw = newValue?.raw ?? .max }
    }
}

/// The places that elements of a ``SlotTable`` have been moved to.
struct SlotMoves<Index: SlotIndex> {
    /// The first place from which an element was moved.
    private let first: Index
    /// The new places, in the order of the old ones.
    private var places: [Packed<Index>]

    /// Creates a record of moves from `count` places, beginning with `first`. At first no element has been moved.
    init(from first: Index, count: Int) {
        self.first = first
        places = Array(repeating: Packed(), count: count)
    }

    /// The present place of an element, by the place it had.
    subscript(old: Index) -> Index {
        get { old.raw < first.raw ? old : places[Int(old.raw - first.raw)].wrappedValue ?? old }
        set { places[Int(old.raw - first.raw)] = Packed(wrappedValue: newValue) }
    }

    /// Calls the closure with the old and the new place of each element that was moved.
    func forEach(_ body: (_ old: Index, _ new: Index) -> Void) {
        for (offset, place) in places.enumerated() {
            if let new = place.wrappedValue { body(Index(raw: first.raw + UInt32(offset)), new) }
        }
    }
}
