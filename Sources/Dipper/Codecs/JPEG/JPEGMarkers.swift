import Foundation

/// A parser of the markers of a JPEG file (ITU-T T.81, B.1.1), which also works while the file arrives.
struct JPEGMarkers {
    enum Item {
        /// A marker, and the range of its parameters without their length.
        case segment(UInt8, Range<Int>)
        /// The end of a scan's coded data; the value is the position of the marker that follows.
        case scanEnd(Int)
        case end
    }

    /// The position where parsing continues.
    private(set) var position = 0
    private var isInScan = false
    private var isAtEnd = false

    /// Returns the next marker.
    /// - Parameter bytes: the file from its first byte as far as it has arrived; never fewer bytes than before.
    /// - Returns: `nil` if more bytes are needed, or no marker follows.
    mutating func next(in bytes: UnsafeRawBufferPointer) -> Item? {
        if isAtEnd { return nil }
        return isInScan ? scanEnd(in: bytes) : marker(in: bytes)
    }

    private mutating func scanEnd(in bytes: UnsafeRawBufferPointer) -> Item? {
        while let found = Self.marker(in: bytes, from: position) {
            position = found
            guard found + 1 < bytes.count else { return nil }
            switch bytes[found + 1] {
            // A stuffed byte, or a restart marker.
            case 0, 0xD0...0xD7: position = found + 2
            // A fill byte.
            case 0xFF: position = found + 1
            default:
                isInScan = false
                return .scanEnd(found)
            }
        }
        position = max(position, bytes.count)
        return nil
    }

    private mutating func marker(in bytes: UnsafeRawBufferPointer) -> Item? {
        guard var next = Self.marker(in: bytes, from: position) else {
            position = max(position, bytes.count)
            return nil
        }
        while next + 1 < bytes.count, bytes[next + 1] == 0xFF { next += 1 }
        position = next
        guard next + 1 < bytes.count else { return nil }
        let code = bytes[next + 1]
        switch code {
        case 0xD9:
            isAtEnd = true
            return .end
        case 0, 1, 0xD0...0xD8:
            position = next + 2
            return .segment(code, position..<position)
        default:
            guard next + 3 < bytes.count else { return nil }
            let length = Int(bytes[next + 2]) << 8 | Int(bytes[next + 3])
            let end = next + 2 + max(2, length)
            guard end <= bytes.count else { return nil }
            position = end
            isInScan = code == 0xDA
            return .segment(code, next + 4..<end)
        }
    }

    private static func marker(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard let base = bytes.baseAddress, start < bytes.count,
            let found = memchr(base + start, 0xFF, bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}
