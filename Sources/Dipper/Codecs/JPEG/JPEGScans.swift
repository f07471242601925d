import CodecShims
import Foundation

enum JPEGScans {
    private static let most = 500
    /// Such a scan can cost work without having any bytes, and takes ten times as long.
    private static let mostArithmetic = 100
    /// For a picture with the largest number of pixels allowed; smaller pictures may have more.
    private static let mostOfLargest = 32

    /// Reads all scans. If an error follows complete scans, the reader becomes one that has only these.
    static func absorb(
        _ reader: inout JPEGReader, _ bytes: UnsafeRawBufferPointer, _ eighths: Int, _ options: DecodeOptions
    ) throws(DipperError) {
        try reader.start(eighths: eighths)
        guard let complete = try absorb(reader, stopAfter: 0, options) else { return }
        // libjpeg reads ahead while it decodes rows, so the new reader's bytes end before the error.
        reader = try JPEGReader(UnsafeRawBufferPointer(rebasing: bytes[..<end(ofScan: complete, in: bytes)]))
        try reader.start(eighths: eighths)
        guard try absorb(reader, stopAfter: complete, options) == nil else { throw .undecodable }
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
        _ reader: JPEGReader, stopAfter stop: Int, _ options: DecodeOptions
    ) throws(DipperError) -> Int? {
        // Each scan costs a pass over the whole picture, however few bytes it has.
        let (work, overflows) = options.limits.pixels.multipliedReportingOverflow(by: mostOfLargest)
        let size = reader.size
        let most = reader.header.is_arithmetic ? mostArithmetic : most
        let maxScans = overflows ? most : min(most, max(1, work / (size.width * size.height)))
        while true {
            try options.checkCancelled()
            let status = reader.absorb(maxScans: maxScans, stopAfter: stop)
            switch status {
            case DIPPER_JPEG_OK: return nil
            case DIPPER_JPEG_BROKEN_OFF: return reader.completeScans
            case DIPPER_JPEG_TOO_MANY_SCANS: throw .imageTooLarge.with(detail: "more than \(maxScans) scans")
            // A reader reports this only once.
            case DIPPER_JPEG_TRUNCATED where options.allowsPartial: continue
            case DIPPER_JPEG_MORE: continue
            default: try reader.check(status)
            }
        }
    }

    /// Removes scans that a decode to 1/8 does not use, most of the bytes: libjpeg then decodes each block of most
    /// components to its mean, without other coefficients. `nil` if nothing is removed, or there is no end marker.
    static func meansOnly(_ bytes: UnsafeRawBufferPointer) -> Data? {
        var markers = JPEGMarkers()
        var meanOnly: Set<UInt8> = []
        var kept = Data()
        // All bytes before this position have been copied or removed.
        var start = 0
        var isLeftOut = false
        while let item = markers.next(in: bytes) {
            switch item {
            case .segment(0xDA, let range):
                guard !meanOnly.isEmpty else { return nil }
                guard let scan = JPEGScan(bytes[range]), scan.firstCoefficient > 0, scan.components.count == 1,
                    meanOnly.contains(scan.components[0])
                else { continue }
                kept.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start..<range.lowerBound - 4]))
                isLeftOut = true
            case .segment(let code, let range):
                if let frame = JPEGFrame(code, bytes[range]), frame.isProgressive {
                    meanOnly = meanOnlyComponents(frame)
                }
            case .scanEnd(let position):
                if isLeftOut { start = position }
                isLeftOut = false
            case .end:
                guard start > 0 else { return nil }
                kept.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[start...]))
                return kept
            }
        }
        return nil
    }

    /// The components that libjpeg decodes to one pixel for each block; coarsely sampled ones get two each way.
    private static func meanOnlyComponents(_ frame: JPEGFrame) -> Set<UInt8> {
        let components = frame.components
        guard components.allSatisfy({ (1...4).contains($0.x) && (1...4).contains($0.y) }) else { return [] }
        let mostX = components.map(\.x).max() ?? 1
        let mostY = components.map(\.y).max() ?? 1
        return Set(components.filter { mostX % ($0.x * 2) != 0 || mostY % ($0.y * 2) != 0 }.map(\.name))
    }
}
