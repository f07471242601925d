/// A hash table of the slots of entries, by the hashes of their keys, with open addressing. Eight bytes an element
/// matter with a million entries. The table shrinks when less than a quarter of it is in use.
struct KeyTable {
    private struct Element {
        /// The lower half of the key's hash; the search begins at its lowest bits.
        var hash: UInt32 = 0
        var slot: Int32 = -1
    }

    private static let leastCapacity = 16

    private var elements = [Element](repeating: Element(), count: Self.leastCapacity)
    private(set) var count = 0

    private var mask: Int { elements.count - 1 }

    @inline(__always)
    func find(_ hash: UInt64, isSame: (Int32) -> Bool) -> Int32 {
        let hash = UInt32(truncatingIfNeeded: hash)
        var place = Int(hash) & mask
        while true {
            let element = elements[place]
            if element.slot < 0 || (element.hash == hash && isSame(element.slot)) { return element.slot }
            place = (place + 1) & mask
        }
    }

    mutating func insert(_ hash: UInt64, _ slot: Int32) {
        if (count + 1) * 4 > elements.count * 3 { resize(to: elements.count * 2) }
        place(Element(hash: UInt32(truncatingIfNeeded: hash), slot: slot))
        count += 1
    }

    private mutating func place(_ element: Element) {
        var place = Int(element.hash) & mask
        while elements[place].slot >= 0 { place = (place + 1) & mask }
        elements[place] = element
    }

    private mutating func resize(to size: Int) {
        let old = elements
        elements = [Element](repeating: Element(), count: size)
        for element in old where element.slot >= 0 { place(element) }
    }

    /// The slot must be in the table. Later elements move up, so that no search ends too early.
    mutating func remove(_ hash: UInt64, _ slot: Int32) {
        var hole = Int(UInt32(truncatingIfNeeded: hash)) & mask
        while elements[hole].slot != slot {
            precondition(elements[hole].slot >= 0, "the slot is not in the table")
            hole = (hole + 1) & mask
        }
        var next = (hole + 1) & mask
        while elements[next].slot >= 0 {
            // The element may move only if its search passes the hole.
            let home = Int(elements[next].hash) & mask
            if (next - home) & mask >= (next - hole) & mask {
                elements[hole] = elements[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        elements[hole].slot = -1
        count -= 1
        if elements.count > Self.leastCapacity, count * 4 < elements.count { resize(to: elements.count / 2) }
    }
}

/// The hashes of the entries that left a line last. A newer one may take the place of an older one.
struct Departures {
    private var marks: [UInt64] = []
    private var count: UInt32 = 0

    private func slot(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (marks.count - 1) }

    mutating func add(_ hash: UInt64, among entries: Int) {
        // Half full, because there is only one place for a hash. Another size, which is rare, forgets all.
        if marks.count < max(16, entries * 2) || marks.count > max(64, entries * 16) {
            marks = [UInt64](repeating: 0, count: 1 << (Int.bitWidth - max(16, entries * 3).leadingZeroBitCount))
        }
        count &+= 1
        marks[slot(hash)] = hash & ~UInt64(UInt32.max) | UInt64(count)
    }

    func contains(_ hash: UInt64, among entries: Int) -> Bool {
        guard !marks.isEmpty, case let mark = marks[slot(hash)], mark >> 32 == hash >> 32, mark > 0 else {
            return false
        }
        return Int(count &- UInt32(truncatingIfNeeded: mark)) < entries
    }
}

/// Storage for slots that is read in place: an array would copy an element, which costs more than the rest of a hit.
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

/// Keys in groups, each as often as it was counted. A value.
struct KeyGroups<Name: Hashable & Sendable>: Sendable {
    private var groups: [Name: [CacheKey: Int]] = [:]

    var isEmpty: Bool { groups.isEmpty }

    subscript(name: Name) -> [CacheKey] { groups[name].map { Array($0.keys) } ?? [] }

    mutating func count(_ key: CacheKey, in name: Name, _ change: Int) {
        groups[name, default: [:]][key, default: 0] += change
        guard change < 0, groups[name]?[key] == 0 else { return }
        groups[name]?[key] = nil
        if groups[name]?.isEmpty == true { groups[name] = nil }
    }
}
