import Foundation

/// The markers of a JPEG file (ITU-T T.81, B.1.1), also while the file arrives.
struct JPEGMarkers {
    enum Item {
        /// The range of the parameters is without their length.
        case segment(UInt8, Range<Int>)
        /// The end of a scan's coded data; the value is the position of the marker that follows.
        case scanEnd(Int)
        case end
    }

    private(set) var position = 0
    private var isInScan = false
    private var isAtEnd = false

    /// `nil` if no further marker has arrived. The bytes are all that have arrived, from the file's first.
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

/// The header of a frame of a JPEG file (ITU-T T.81, B.2.2).
struct JPEGFrame {
    struct Component {
        let name: UInt8
        /// The factors of horizontal and vertical sampling.
        let x, y: UInt8
    }

    let isProgressive: Bool
    let bits: Int
    let size: PixelSize
    let components: [Component]

    /// `nil` if the segment is not a frame's header or is too short.
    init?(_ marker: UInt8, _ segment: Slice<UnsafeRawBufferPointer>) {
        let bytes = UnsafeRawBufferPointer(rebasing: segment)
        // C4, C8 and CC are not frames.
        guard (0xC0...0xCF).contains(marker), ![0xC4, 0xC8, 0xCC].contains(marker), bytes.count > 5,
            bytes.count >= 6 + 3 * Int(bytes[5])
        else { return nil }
        isProgressive = marker & 3 == 2
        bits = Int(bytes[0])
        size = PixelSize(width: Int(bytes[3]) << 8 | Int(bytes[4]), height: Int(bytes[1]) << 8 | Int(bytes[2]))
        components = (0..<Int(bytes[5])).map { index in
            let factors = bytes[7 + 3 * index]
            return Component(name: bytes[6 + 3 * index], x: factors >> 4, y: factors & 15)
        }
    }
}

/// The header of a scan of a JPEG file (ITU-T T.81, B.2.3).
struct JPEGScan {
    let components: [UInt8]
    /// The number of the first coefficient; 0 is the mean of a block.
    let firstCoefficient: UInt8

    init?(_ segment: Slice<UnsafeRawBufferPointer>) {
        let bytes = UnsafeRawBufferPointer(rebasing: segment)
        guard let count = bytes.first.map(Int.init), bytes.count > 1 + 2 * count else { return nil }
        components = (0..<count).map { bytes[1 + 2 * $0] }
        firstCoefficient = bytes[1 + 2 * count]
    }
}

/// The segments of a JPEG file before its first scan (ITU-T T.81, annex B), as far as they have arrived; valid as long as
/// the bytes are.
struct JPEGHeader {
    private(set) var frame: JPEGFrame?
    /// What the first data that state something say.
    private(set) var exif: [ByteReader] = []
    private(set) var xmp: UnsafeRawBufferPointer?
    /// Whether something else follows the segments.
    private(set) var isComplete = false
    /// A profile is stored in parts of at most 64 KiB, each after its number and the number of parts (ICC.1:2022, B.4).
    private var profileParts: [UnsafeRawBufferPointer] = []

    init(_ bytes: UnsafeRawBufferPointer) {
        var markers = JPEGMarkers()
        while let item = markers.next(in: bytes) {
            guard case .segment(let code, let range) = item, code != 0xDA else {
                isComplete = true
                return
            }
            let segment = ByteReader(UnsafeRawBufferPointer(rebasing: bytes[range]), count: range.count)
            switch code {
            case 0xE1 where exif.count < 16 && segment.holds("Exif\0\0"): exif.append(segment)
            case 0xE1 where segment.holds("http://ns.adobe.com/xap/1.0/\0"): xmp = xmp ?? segment.bytes
            // No more than a profile can have, and one that is too many.
            case 0xE2 where segment.holds("ICC_PROFILE\0") && profileParts.count < 256:
                profileParts.append(UnsafeRawBufferPointer(rebasing: segment.bytes[12...]))
            default: frame = frame ?? JPEGFrame(code, bytes[range])
            }
        }
    }

    var orientation: Image.Orientation? { exif.lazy.compactMap { Image.Orientation(exif: $0) }.first }

    var hasProfile: Bool { !profileParts.isEmpty }

    /// `nil` if there is no profile, a part is missing, or it is too large.
    var profile: Data? {
        let parts = profileParts.filter { $0.count > 2 }
        guard let count = parts.first?[1], parts.count == Int(count), parts.allSatisfy({ $0[1] == count }),
            Set(parts.map { $0[0] }) == Set(1...count),
            parts.reduce(0, { $0 + $1.count - 2 }) <= ColorTransform.largestProfile
        else { return nil }
        return parts.sorted { $0[0] < $1[0] }.reduce(into: Data()) {
            $0.append(contentsOf: UnsafeRawBufferPointer(rebasing: $1[2...]))
        }
    }
}
