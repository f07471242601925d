/// Finds the slot of a key: a hash table of slot numbers, with open addressing, that leaves the keys where they are.
///
/// Eight bytes an entry, and in the common case one place to look at, also for a removal: what counts when there are a
/// million of them.
struct KeyTable {
    private struct Entry {
        /// The lower half of the key's hash. Its own lower bits say where the search begins.
        var hash: UInt32
        /// −1 for an empty place.
        var slot: Int32
    }

    private var entries = [Entry](repeating: Entry(hash: 0, slot: -1), count: 16)
    private(set) var count = 0

    private var mask: Int { entries.count - 1 }

    /// The slot whose key has this hash and is found to be the same; −1 if there is none.
    @inline(__always)
    func find(_ hash: UInt64, isSame: (Int32) -> Bool) -> Int32 {
        let hash = UInt32(truncatingIfNeeded: hash)
        var place = Int(hash) & mask
        while true {
            let entry = entries[place]
            if entry.slot < 0 { return -1 }
            if entry.hash == hash, isSame(entry.slot) { return entry.slot }
            place = (place + 1) & mask
        }
    }

    /// Adds a slot whose key is not in the table.
    mutating func insert(_ hash: UInt64, _ slot: Int32) {
        if (count + 1) * 4 > entries.count * 3 { grow() }
        place(Entry(hash: UInt32(truncatingIfNeeded: hash), slot: slot))
        count += 1
    }

    private mutating func place(_ entry: Entry) {
        var place = Int(entry.hash) & mask
        while entries[place].slot >= 0 { place = (place + 1) & mask }
        entries[place] = entry
    }

    private mutating func grow() {
        let old = entries
        entries = [Entry](repeating: Entry(hash: 0, slot: -1), count: old.count * 2)
        for entry in old where entry.slot >= 0 { place(entry) }
    }

    /// Removes a slot that is in the table. Those behind it move up, so that no search ends too early.
    mutating func remove(_ hash: UInt64, _ slot: Int32) {
        var hole = Int(UInt32(truncatingIfNeeded: hash)) & mask
        while entries[hole].slot != slot {
            precondition(entries[hole].slot >= 0, "the slot is not in the table")
            hole = (hole + 1) & mask
        }
        var next = (hole + 1) & mask
        while entries[next].slot >= 0 {
            // It may move only if its search passes the hole.
            let home = Int(entries[next].hash) & mask
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
