/// Finds the slot of a key: a hash table of slot numbers, with open addressing, that leaves the keys where they are.
///
/// Eight bytes an entry, and one place to look at in the common case: what counts when there are a million of them.
struct KeyTable {
    private struct Entry {
        /// The upper half of the key's hash; the lower one says where the search begins.
        var tag: UInt32
        /// −1 for an empty place.
        var slot: Int32
    }

    private var entries = [Entry](repeating: Entry(tag: 0, slot: -1), count: 16)
    private(set) var count = 0

    private var mask: Int { entries.count - 1 }

    /// The slot whose key has this hash and is found to be the same; −1 if there is none.
    @inline(__always)
    func find(_ hash: UInt64, isSame: (Int32) -> Bool) -> Int32 {
        let tag = UInt32(truncatingIfNeeded: hash >> 32)
        var place = Int(truncatingIfNeeded: hash) & mask
        while true {
            let entry = entries[place]
            if entry.slot < 0 { return -1 }
            if entry.tag == tag, isSame(entry.slot) { return entry.slot }
            place = (place + 1) & mask
        }
    }

    /// Adds a slot whose key is not in the table.
    mutating func insert(_ hash: UInt64, _ slot: Int32, hashOf: (Int32) -> UInt64) {
        if (count + 1) * 4 > entries.count * 3 { grow(hashOf) }
        place(hash, slot)
        count += 1
    }

    private mutating func place(_ hash: UInt64, _ slot: Int32) {
        var place = Int(truncatingIfNeeded: hash) & mask
        while entries[place].slot >= 0 { place = (place + 1) & mask }
        entries[place] = Entry(tag: UInt32(truncatingIfNeeded: hash >> 32), slot: slot)
    }

    private mutating func grow(_ hashOf: (Int32) -> UInt64) {
        let old = entries
        entries = []
        entries.reserveCapacity(old.count * 2)
        entries.adviseLargePages()
        entries.append(contentsOf: repeatElement(Entry(tag: 0, slot: -1), count: old.count * 2))
        for entry in old where entry.slot >= 0 { place(hashOf(entry.slot), entry.slot) }
    }

    /// Removes a slot that is in the table. Those behind it move up, so that no search ends too early.
    mutating func remove(_ hash: UInt64, _ slot: Int32, hashOf: (Int32) -> UInt64) {
        var hole = Int(truncatingIfNeeded: hash) & mask
        while entries[hole].slot != slot {
            precondition(entries[hole].slot >= 0, "the slot is not in the table")
            hole = (hole + 1) & mask
        }
        var next = (hole + 1) & mask
        while entries[next].slot >= 0 {
            let home = Int(truncatingIfNeeded: hashOf(entries[next].slot)) & mask
            // It may move only if its search passes the hole.
            if (next - home) & mask >= (next - hole) & mask {
                entries[hole] = entries[next]
                hole = next
            }
            next = (next + 1) & mask
        }
        entries[hole].slot = -1
        count -= 1
    }
}
