import Foundation

/// A filter that removes scans which a decode to 1/8 does not use.
///
/// At 1/8, libjpeg decodes each block of most components to one pixel, its mean. For these components the filter
/// removes the scans of a progressive file that hold other coefficients. They are most of the file's bytes.
enum JPEGScanFilter {
    /// Returns the file without these scans.
    /// - Returns: `nil` if there is nothing to remove, or the file has no end marker.
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

    /// Returns the components of a frame that libjpeg decodes to one pixel for each block. Components with coarse
    /// enough sampling are decoded to two pixels in each direction instead.
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
