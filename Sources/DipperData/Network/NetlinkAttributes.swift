import CMnl

/// The complete attributes of a message, or of another attribute.
struct NetlinkAttributes: Sequence, IteratorProtocol {
    private var position: UnsafeRawPointer?
    private let end: UnsafeRawPointer?

    init(_ bytes: UnsafeRawBufferPointer) {
        position = bytes.baseAddress
        end = bytes.baseAddress.map { $0 + bytes.count }
    }

    mutating func next() -> (type: Int, payload: UnsafeRawBufferPointer)? {
        // The padding of the last attribute may be missing.
        guard let position, let end, position < end else { return nil }
        let attribute = position.assumingMemoryBound(to: nlattr.self)
        guard mnl_attr_ok(attribute, Int32(clamping: end - position)) else { return nil }
        self.position = UnsafeRawPointer(mnl_attr_next(attribute))
        let payload = UnsafeRawBufferPointer(
            start: mnl_attr_get_payload(attribute), count: Int(mnl_attr_get_payload_len(attribute)))
        return (Int(mnl_attr_get_type(attribute)), payload)
    }
}

extension UnsafeRawBufferPointer {
    /// The number at the start; `nil` if there are too few bytes.
    var number: UInt32? { structure(UInt32.self) }

    /// Returns the value at the start; `nil` if there are too few bytes.
    func structure<Value: BitwiseCopyable>(_ type: Value.Type) -> Value? {
        count >= MemoryLayout<Value>.size ? loadUnaligned(as: type) : nil
    }

    /// The text up to a zero byte, or to the end.
    var text: String { String(decoding: prefix { $0 != 0 }, as: UTF8.self) }
}
