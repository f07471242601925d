import Foundation

/// Bytes that grow at the end and become a `Data` without being copied.
struct ByteBuffer: ~Copyable {
    private var start: UnsafeMutableRawPointer?
    private var capacity = 0
    private(set) var count = 0

    init() {}

    deinit { free(start) }

    mutating func reserve(_ wanted: Int) {
        guard wanted > capacity else { return }
        guard let grown = realloc(start, wanted) else {
            preconditionFailure("no memory for a body of \(wanted) bytes")
        }
        start = grown
        capacity = wanted
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        if count + bytes.count > capacity { reserve(max(count + bytes.count, capacity * 2)) }
        start?.advanced(by: count).copyMemory(from: source, byteCount: bytes.count)
        count += bytes.count
    }

    func copy() -> Data { start.map { Data(bytes: $0, count: count) } ?? Data() }

    /// Hands the bytes over and is empty afterwards.
    mutating func takeData() -> Data {
        defer {
            start = nil
            capacity = 0
            count = 0
        }
        guard let start, count > 0 else {
            free(start)
            return Data()
        }
        // What was reserved in vain goes back.
        let bytes = capacity > count + count / 8 + 64 ? realloc(start, count) ?? start : start
        return Data(bytesNoCopy: bytes, count: count, deallocator: .free)
    }
}
