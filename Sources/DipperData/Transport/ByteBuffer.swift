import Foundation

/// Bytes that grow at the end, and become a `Data` without being copied.
///
/// A snapshot shares the bytes that are there: appending never changes them, and moves them only for as long as nobody
/// holds a snapshot.
struct ByteBuffer: ~Copyable {
    // The memory never changes below the count that a snapshot was made with, and is freed with its last owner.
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

    /// Makes room for so many bytes in all; false if there is no memory for them.
    mutating func reserve(_ wanted: Int) -> Bool {
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage else {
            storage = Storage(capacity: wanted)
            return storage != nil
        }
        guard wanted > current.capacity else { return true }
        if isAlone { return current.resize(wanted, keeping: count) }
        // Somebody looks at the bytes: they stay where they are.
        guard let moved = Storage(capacity: wanted) else { return false }
        moved.start.copyMemory(from: current.start, byteCount: count)
        storage = moved
        return true
    }

    /// False, and nothing has changed, if there is no memory for more.
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

    /// The bytes so far, shared and not copied. They must not be changed in place.
    func snapshot() -> Data { storage.map { $0.data(count: count) } ?? Data() }

    /// Hands the bytes over and is empty afterwards; `nil` if they would have to be copied, and there is no memory.
    mutating func takeData() -> Data? {
        defer {
            storage = nil
            count = 0
        }
        let isAlone = isKnownUniquelyReferenced(&storage)
        guard let current = storage, count > 0 else { return Data() }
        // Whoever gets the bytes may change them, which somebody else's snapshot must not see.
        guard isAlone else {
            guard let copy = Storage(capacity: count) else { return nil }
            copy.start.copyMemory(from: current.start, byteCount: count)
            return copy.data(count: count)
        }
        // What was reserved in vain goes back.
        if current.capacity > count + count / 8 + 64 { _ = current.resize(count, keeping: count) }
        return current.data(count: count)
    }
}
