/// Reading of files with several scans.
enum JPEGScans {
    /// The most scans that a file may have.
    private static let most = 500
    /// The most scans with arithmetic coding. Such a scan can cost work without having any bytes, and takes ten times
    /// as long.
    private static let mostArithmetic = 100
    /// The most scans of a picture with the largest number of pixels allowed; smaller pictures may have more.
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

    /// Reads all scans.
    /// - Returns: `nil` if all scans are good, or else the number of good scans before an error.
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
