/// A hash table that finds the place of an element by the hash of its key, with open addressing. The keys stay in the
/// elements.
///
/// An entry takes eight bytes, and a search or a removal looks at one entry in the common case, which matters with a
/// million entries. The table shrinks when less than a quarter of it is in use.
struct KeyTable<Index: SlotIndex> {
    private struct Entry {
        /// The lower half of the key's hash. Its lowest bits say where the search begins.
        var hash: UInt32 = 0
        /// `nil` where the entry is empty.
        @Packed var index: Index? = nil
    }

    private static var leastCapacity: Int { 16 }

    private var entries = [Entry](repeating: Entry(), count: Self.leastCapacity)
    private(set) var count = 0

    var capacity: Int { entries.count }

    private var mask: Int { entries.count - 1 }

    /// Returns the place whose key has this hash and for which `isSame` is true.
    @inline(__always)
    func find(_ hash: UInt64, isSame: (Index) -> Bool) -> Index? {
        let hash = UInt32(truncatingIfNeeded: hash)
        var place = Int(hash) & mask
        while true {
            let entry = entries[place]
            guard let index = entry.index else { return nil }
            if entry.hash == hash, isSame(index) { return index }
            place = (place + 1) & mask
        }
    }

    mutating func insert(_ hash: UInt64, _ index: Index) {
        if (count + 1) * 4 > entries.count * 3 { resize(to: entries.count * 2) }
        place(Entry(hash: UInt32(truncatingIfNeeded: hash), index: index))
        count += 1
    }

    private mutating func place(_ entry: Entry) {
        var place = Int(entry.hash) & mask
        while entries[place].index != nil { place = (place + 1) & mask }
        entries[place] = entry
    }

    private mutating func resize(to size: Int) {
        let old = entries
        entries = [Entry](repeating: Entry(), count: size)
        for entry in old where entry.index != nil { place(entry) }
    }

    private func position(_ hash: UInt64, _ index: Index) -> Int {
        var place = Int(UInt32(truncatingIfNeeded: hash)) & mask
        while entries[place].index != index {
            precondition(entries[place].index != nil, "the place is not in the table")
            place = (place + 1) & mask
        }
        return place
    }

    mutating func move(_ hash: UInt64, from old: Index, to new: Index) {
        entries[position(hash, old)].index = new
    }

    /// Removes a place that is in the table. The entries behind it move up, so that no search ends too early.
    mutating func remove(_ hash: UInt64, _ index: Index) {
        var hole = position(hash, index)
        var next = (hole + 1) & mask
        while entries[next].index != nil {
            // The entry may move only if its search passes the hole.
            let home = Int(entries[next].hash) & mask
            if (next - home) & mask >= (next - hole) & mask {
                entries[hole] = entries[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        entries[hole].index = nil
        count -= 1
        if entries.count > Self.leastCapacity, count * 4 < entries.count { resize(to: entries.count / 2) }
    }
}

/// The number of a place in a table. Each table has an index type, so that the compiler keeps them apart.
protocol SlotIndex: Hashable, Sendable {
    var raw: UInt32 { get }
    init(raw: UInt32)
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

/// Storage for slots that grows at the end and is read in place. An array would copy what it hands out, which at a hit
/// costs more than all the rest.
struct SlotStorage<Slot>: ~Copyable {
    private(set) var start: UnsafeMutablePointer<Slot>
    private(set) var count = 0
    private var capacity = 16

    init() {
        start = .allocate(capacity: capacity)
    }

    deinit {
        start.deinitialize(count: count)
        start.deallocate()
    }

    mutating func append(_ slot: consuming Slot) {
        if count == capacity {
            let grown = UnsafeMutablePointer<Slot>.allocate(capacity: capacity * 2)
            grown.moveInitialize(from: start, count: count)
            start.deallocate()
            start = grown
            capacity *= 2
        }
        (start + count).initialize(to: slot)
        count += 1
    }
}
