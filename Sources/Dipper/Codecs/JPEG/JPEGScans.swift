/// Takes in the scans of a file that has several.
enum JPEGScans {
    /// Scans that a file may have at the most.
    private static let most = 500
    /// Arithmetic codes make work of no bytes at all: a scan of them takes ten times as long.
    private static let mostArithmetic = 100
    /// Scans of a picture that has all the pixels that are allowed; smaller ones may have more.
    private static let mostOfLargest = 32

    /// A reader with all scans, ready to give rows. If an error comes after complete scans, it has these.
    static func absorbed(
        _ reader: consuming JPEGReader, _ bytes: UnsafeRawBufferPointer, _ eighths: Int, _ options: DecodeOptions
    ) throws(DipperError) -> JPEGReader {
        try reader.start(eighths: eighths, memory: options.limits.bytes)
        let complete = try absorb(&reader, stopAfter: 0, options)
        guard let complete else { return reader }
        // libjpeg reads ahead while it gives rows: it must not come to the error again.
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

    /// - Returns: `nil` if all went well, else how many scans are good.
    private static func absorb(
        _ reader: inout JPEGReader, stopAfter stop: Int, _ options: DecodeOptions
    ) throws(DipperError) -> Int? {
        // Each scan passes over the whole picture, however few bytes it has.
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
