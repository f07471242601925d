import Foundation

/// A parser that decides, while a JPEG file arrives, when a better preview can be displayed.
///
/// It reads each byte once. To display a preview, decode the prefix that ``preview(in:)`` returns with
/// ``DecodeOptions/allowsPartial``. The parser returns no previews of baseline files: they arrive row by row, so any
/// prefix shows the rows received so far.
///
/// ```swift
/// var (parser, received, options) = (ProgressiveJPEG(), Data(), DecodeOptions())
/// options.allowsPartial = true
/// for chunk in chunks {               // the parts of the file as they arrive
///     received += chunk
///     guard let length = parser.preview(in: received) else { continue }
///     view.show(try JPEGDecoder().decode(received.prefix(length), options))
/// }
/// ```
public struct ProgressiveJPEG: Sendable {
    /// Whether the file is progressive; `nil` until its header has arrived.
    public private(set) var isProgressive: Bool?
    /// The number of scans that have arrived completely.
    public private(set) var completeScans = 0
    /// The number of bytes up to the end of the last complete scan.
    public private(set) var usableLength = 0

    private var markers = JPEGMarkers()
    private var components = 0
    /// The components whose mean values have arrived, and those of the scan that is arriving.
    private var shown: Set<UInt8> = []
    private var arriving: Set<UInt8> = []
    private var lastPreview = 0

    /// Creates a parser for a file from its first byte.
    public init() {}

    /// Parses the new bytes of a file, which `data` holds from its first byte, and returns the length of a prefix, in
    /// bytes, that makes a better preview; `nil` if there is none. A preview shows the whole picture coarsely, in all
    /// its colours, and is made of at least a quarter more bytes than the one before.
    public mutating func preview(in data: Data) -> Int? {
        if isProgressive == false { return nil }
        data.withUnsafeBytes { advance(in: $0) }
        guard isProgressive == true, components > 0, shown.count >= components,
            usableLength > lastPreview + lastPreview / 4
        else { return nil }
        lastPreview = usableLength
        return usableLength
    }

    private mutating func advance(in bytes: UnsafeRawBufferPointer) {
        while isProgressive != false, let item = markers.next(in: bytes) {
            switch item {
            case .segment(let code, let range): read(code, bytes[range])
            case .scanEnd(let position):
                completeScans += 1
                usableLength = position
                shown.formUnion(arriving)
            case .end: return
            }
        }
    }

    private mutating func read(_ code: UInt8, _ parameters: Slice<UnsafeRawBufferPointer>) {
        let parameters = Array(parameters)
        switch code {
        // Start of frame 2 and 10 are progressive. C4, C8 and CC are not frames.
        case 0xC2, 0xCA:
            isProgressive = true
            components = parameters.count > 5 ? Int(parameters[5]) : 0
        case 0xC0, 0xC1, 0xC3, 0xC5...0xC7, 0xC9, 0xCB, 0xCD...0xCF:
            isProgressive = false
        case 0xDA:
            arriving = []
            guard let count = parameters.first.map(Int.init), parameters.count > 1 + 2 * count,
                // A scan without the mean values displays nothing alone.
                parameters[1 + 2 * count] == 0
            else { return }
            arriving = Set((0..<count).map { parameters[1 + 2 * $0] })
        default: break
        }
    }
}

enum JPEGScans {
    private static let most = 500
    /// Such a scan can cost work without having any bytes, and takes ten times as long.
    private static let mostArithmetic = 100
    /// For a picture with the largest number of pixels allowed; smaller pictures may have more.
    private static let mostOfLargest = 32

    /// Returns a reader that has read all scans and can decode rows. If an error follows complete scans, the reader has
    /// only these.
    static func absorbed(
        _ reader: consuming JPEGReader, _ bytes: UnsafeRawBufferPointer, _ eighths: Int, _ options: DecodeOptions
    ) throws(DipperError) -> JPEGReader {
        try reader.start(eighths: eighths, memory: options.limits.bytes)
        let complete = try absorb(&reader, stopAfter: 0, options)
        guard let complete else { return reader }
        // libjpeg reads ahead while it decodes rows, so the new reader's bytes end before the error.
        reader = try JPEGReader(UnsafeRawBufferPointer(rebasing: bytes[..<end(ofScan: complete, in: bytes)]))
        try reader.start(eighths: eighths, memory: options.limits.bytes)
        guard try absorb(&reader, stopAfter: complete, options) == nil else { throw .undecodable }
        return reader
    }

    private static func end(ofScan number: Int, in bytes: UnsafeRawBufferPointer) -> Int {
        var markers = JPEGMarkers()
        var scans = 0
        while let item = markers.next(in: bytes) {
            guard case .scanEnd(let position) = item else { continue }
            scans += 1
            if scans == number { return position }
        }
        return bytes.count
    }

    /// Returns `nil` if all scans are good, or else the number of good scans before an error.
    private static func absorb(
        _ reader: inout JPEGReader, stopAfter stop: Int, _ options: DecodeOptions
    ) throws(DipperError) -> Int? {
        // Each scan costs a pass over the whole picture, however few bytes it has.
        let (work, overflows) = options.limits.pixels.multipliedReportingOverflow(by: mostOfLargest)
        let size = reader.size
        let most = reader.header.is_arithmetic ? mostArithmetic : most
        let maxScans = overflows ? most : min(most, max(1, work / (size.width * size.height)))
        while true {
            try options.checkCancelled()
            switch try reader.absorb(maxScans: maxScans, stopAfter: stop) {
            case .done: return nil
            case .more: continue
            case .brokenOff(let scans): return scans
            case .truncated: guard options.allowsPartial else { throw JPEGReader.truncated }
            }
        }
    }
}

/// Removes scans which a decode to 1/8 does not use. At 1/8, libjpeg decodes each block of most components to one
/// pixel, its mean. For these components the scans of a progressive file that hold other coefficients are removed: most
/// of the file's bytes.
enum JPEGScanFilter {
    /// `nil` if there is nothing to remove, or the file has no end marker.
    static func meansOnly(_ bytes: UnsafeRawBufferPointer) -> Data? {
        var markers = JPEGMarkers()
        var meanOnly: Set<UInt8> = []
        var kept = Data()
        // All bytes before this position have been copied or removed.
        var start = 0
        var isLeftOut = false
        while let item = markers.next(in: bytes) {
            switch item {
            case .segment(0xC2, let range), .segment(0xCA, let range):
                meanOnly = components(bytes[range])
            case .segment(0xDA, let range):
                guard !meanOnly.isEmpty else { return nil }
                guard isOfOtherCoefficients(bytes[range], of: meanOnly) else { continue }
                // Remove the scan's marker and length too, two bytes each.
                kept.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start..<range.lowerBound - 4]))
                isLeftOut = true
            case .scanEnd(let position):
                if isLeftOut { start = position }
                isLeftOut = false
            case .segment: continue
            case .end:
                guard start > 0 else { return nil }
                kept.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start...]))
                return kept
            }
        }
        return nil
    }

    /// The components that libjpeg decodes to one pixel for each block. Components with coarse enough sampling are
    /// decoded to two pixels in each direction instead.
    private static func components(_ frame: Slice<UnsafeRawBufferPointer>) -> Set<UInt8> {
        let frame = Array(frame)
        guard frame.count > 5, frame.count >= 6 + Int(frame[5]) * 3 else { return [] }
        var most = (x: UInt8(1), y: UInt8(1))
        let starts = stride(from: 6, to: 6 + Int(frame[5]) * 3, by: 3)
        for start in starts {
            let (x, y) = (frame[start + 1] >> 4, frame[start + 1] & 15)
            guard (1...4).contains(x), (1...4).contains(y) else { return [] }
            most = (max(most.x, x), max(most.y, y))
        }
        var result: Set<UInt8> = []
        for start in starts {
            let (x, y) = (frame[start + 1] >> 4, frame[start + 1] & 15)
            if most.x % (x * 2) != 0 || most.y % (y * 2) != 0 { result.insert(frame[start]) }
        }
        return result
    }

    private static func isOfOtherCoefficients(_ scan: Slice<UnsafeRawBufferPointer>, of components: Set<UInt8>) -> Bool
    {
        let scan = Array(scan)
        return scan.count >= 6 && scan[0] == 1 && components.contains(scan[1]) && scan[3] > 0
    }
}

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

    /// `nil` if more bytes are needed, or no marker follows. The bytes are the file from its first byte as far as it
    /// has arrived; never fewer than before.
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
