import Foundation

/// A byte buffer that grows at its end and becomes a `Data` without a copy.
///
/// A snapshot shares the buffer's bytes. Appending never changes these bytes, and moves them only while there is no
/// snapshot.
struct ByteBuffer: ~Copyable {
    // Bytes below the count of a snapshot never change, and the memory is freed with its last owner.
    private final class Storage: @unchecked Sendable {
        private var memory: BufferMemory
        var start: UnsafeMutableRawPointer { memory.start }
        var capacity: Int { memory.capacity }

        init?(capacity: Int) {
            guard let memory = BufferMemory(capacity) else { return nil }
            self.memory = memory
        }

        func resize(_ wanted: Int, keeping count: Int) -> Bool { memory.resize(wanted, keeping: count) }

        func data(count: Int) -> Data {
            Data(bytesNoCopy: start, count: count, deallocator: .custom { _, _ in withExtendedLifetime(self) {} })
        }
    }

    private var storage: Storage?
    private(set) var count = 0

    init() {}

    /// Makes room for `wanted` bytes in all. Returns `false` if there is no memory for them.
    mutating func reserve(_ wanted: Int) -> Bool {
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage else {
            storage = Storage(capacity: wanted)
            return storage != nil
        }
        guard wanted > current.capacity else { return true }
        if isAlone { return current.resize(wanted, keeping: count) }
        // A snapshot shares the bytes, so they stay where they are.
        guard let moved = Storage(capacity: wanted) else { return false }
        moved.start.copyMemory(from: current.start, byteCount: count)
        storage = moved
        return true
    }

    /// Appends bytes. Returns `false`, and nothing has changed, if there is no memory for them.
    mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return true }
        let (needed, overflows) = count.addingReportingOverflow(bytes.count)
        guard !overflows else { return false }
        let capacity = storage?.capacity ?? 0
        let roomy = capacity.multipliedReportingOverflow(by: 2)
        if needed > capacity, roomy.overflow || !reserve(max(needed, roomy.partialValue)), !reserve(needed) {
            return false
        }
        storage?.start.advanced(by: count).copyMemory(from: source, byteCount: bytes.count)
        count = needed
        return true
    }

    /// Returns the bytes so far without a copy. They must not be changed in place.
    func snapshot() -> Data { storage.map { $0.data(count: count) } ?? Data() }

    /// Returns the bytes and empties the buffer. Copies them only if a snapshot shares them; `nil` if there is no
    /// memory for that copy.
    mutating func takeData() -> Data? {
        defer {
            storage = nil
            count = 0
        }
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage, count > 0 else { return Data() }
        // The caller may change its bytes, and a snapshot must not see that.
        guard isAlone else {
            guard let copy = Storage(capacity: count) else { return nil }
            copy.start.copyMemory(from: current.start, byteCount: count)
            return copy.data(count: count)
        }
        // Returns reserved memory that is not used.
        if current.capacity > count + count / 8 + 64 { _ = current.resize(count, keeping: count) }
        return current.data(count: count)
    }
}
