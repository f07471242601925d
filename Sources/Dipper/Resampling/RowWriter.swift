import CPixels

/// Makes a picture of the wanted size from rows in stored order, with no more memory than the result needs. A decoder
/// fills ``memory(rows:)`` with RGBA, and calls ``commit(_:)`` with the number of rows.
struct RowWriter: ~Copyable {
    enum Alpha {
        case opaque
        case premultiplied
        case straight
    }

    let source: PixelSize
    let stored: PixelSize
    private let alpha: Alpha
    private let options: DecodeOptions
    private var result: OrientedRows
    private var resampler: Resampler?
    /// The rows on their way to the resampler. Without a resampler, rows go directly to the result.
    private let band: PixelStorage?
    private let bandRows: Int
    private var isOpaque = true

    private(set) var committed = 0

    /// In bytes: a band stays in the second level cache until the resampler takes it.
    private static let bandBytes = 1 << 18

    /// Throws `DipperError.imageTooLarge` or `DipperError.undecodable` before any memory is taken. `source` is the size
    /// of the rows that come, which may be smaller than the stored picture's.
    init(
        source: PixelSize, of picture: PixelSize, alpha: Alpha, orientation: Image.Orientation = .up,
        _ options: DecodeOptions
    ) throws(DipperError) {
        let limits = options.limits
        try limits.check(source)
        let stored = try options.storedTarget(for: picture, orientation)
        let bandRows = Self.bandRows(of: source)
        try limits.check(bytes: Self.byteCount(from: source, to: stored, orientation))

        let result = try OrientedRows(stored, orientation)
        var resampler: Resampler?
        var band: PixelStorage?
        if stored != source {
            resampler = try Resampler(from: source, to: stored)
            band = try PixelStorage(byteCount: bandRows * source.width * 4)
        }
        self.source = source
        self.stored = stored
        self.alpha = alpha
        self.options = options
        self.bandRows = bandRows
        self.result = result
        self.resampler = resampler
        self.band = band
    }

    private static func bandRows(of source: PixelSize) -> Int {
        min(source.height, max(1, bandBytes / max(1, source.width * 4)))
    }

    /// All the memory that a writer takes, in bytes, and its result. Throws `DipperError.imageTooLarge`.
    static func byteCount(
        from source: PixelSize, to stored: PixelSize, _ orientation: Image.Orientation = .up
    ) throws(DipperError) -> Int {
        // With longer sides even the tables of a resampler are too large.
        guard max(stored.width, stored.height, source.width, source.height) <= Int32.max else {
            throw .imageTooLarge.with(detail: "\(stored) pixels")
        }
        let count = try stored.byteCount() + OrientedRows.bandBytes(stored, orientation)
        if stored == source { return count }
        return count + Resampler.byteCount(from: source, to: stored) + bandRows(of: source) * source.width * 4
    }

    /// Uninitialized memory for the next rows, without gaps: for at least one row, and for no more than are still to
    /// come; no rows when all have come. A row must be written in full before it is committed.
    mutating func memory(rows: Int) -> (base: UnsafeMutableRawPointer, rows: Int) {
        guard let band else { return result.memory(rows: rows) }
        return (band.base, min(rows, source.height - committed, bandRows))
    }

    mutating func commit(_ rows: Int) {
        let (base, room) = memory(rows: rows)
        precondition(rows >= 0 && rows <= room, "Rows are within the memory given.")
        let pixels = base.assumingMemoryBound(to: UInt8.self)
        switch alpha {
        case .opaque: break
        case .premultiplied: isOpaque = isOpaque && pixels_are_opaque(pixels, rows * source.width)
        case .straight: isOpaque = pixels_premultiply(pixels, rows * source.width) && isOpaque
        }
        committed += rows
        let isTaken: Void? = resampler?.add(base, stride: source.width * 4, count: rows, to: &result)
        if isTaken == nil { result.commit(rows) }
    }

    /// Rows that have not come are transparent. `color` converts to sRGB. Throws `DipperError.cancelled`.
    consuming func finish(color: ColorTransform? = nil) throws(DipperError) -> Image {
        if committed < source.height { isOpaque = false }
        while committed < source.height {
            try options.checkCancelled()
            let (base, rows) = memory(rows: Self.bandBytes / (source.width * 4) + 1)
            base.initializeMemory(as: UInt8.self, repeating: 0, count: rows * source.width * 4)
            commit(rows)
        }
        let (isOpaque, options) = (isOpaque, options)
        let buffer = result.finish()
        try color?.apply(to: buffer, isOpaque: isOpaque, options)
        return buffer.image(isOpaque: isOpaque, scale: options.scale)
    }

    static let truncated = DipperError.undecodable.with(detail: "truncated")

    /// Has a closure fill ``memory(rows:)``, given the first row's number and the count, until all have come, or it
    /// returns fewer because the file ends: an error unless the options allow a partial picture and a row has come.
    mutating func fill(
        rowsAtATime: Int = DecodeOptions.rowsAtATime,
        _ read: (_ memory: UnsafeMutableRawPointer, _ first: Int, _ rows: Int) throws(DipperError) -> Int
    ) throws(DipperError) {
        while committed < source.height {
            try options.checkCancelled()
            let (base, rows) = memory(rows: rowsAtATime)
            let done = try read(base, committed, rows)
            commit(done)
            if done < rows {
                guard options.allowsPartial, committed > 0 else { throw Self.truncated }
                return
            }
        }
    }

    /// Whether all rows have come.
    var isFull: Bool { committed == source.height }

    /// Has a closure fill ``memory(rows:)``, given the number of rows and their width, until all have come, or it returns
    /// fewer because the next ones have not arrived.
    mutating func fillArriving(
        rowsAtATime: Int,
        _ read: (_ memory: UnsafeMutableRawPointer, _ rows: Int, _ width: Int) throws(DipperError) -> Int
    ) throws(DipperError) {
        while !isFull {
            try options.checkCancelled()
            let (base, rows) = memory(rows: rowsAtATime)
            let done = try read(base, rows, source.width)
            if done > 0 { commit(done) }
            if done < rows { return }
        }
    }

    /// Returns a picture, in the size that the options ask for, from a whole picture in memory, without gaps between
    /// rows, whose size may differ from that of the stored picture.
    static func image(
        of pixels: UnsafeRawPointer, _ size: PixelSize, picture: PixelSize, alpha: Alpha,
        orientation: Image.Orientation = .up, color: ColorTransform? = nil, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        var writer = try RowWriter(source: size, of: picture, alpha: alpha, orientation: orientation, options)
        let stride = size.width * 4
        try writer.fill { memory, first, rows throws(DipperError) in
            memory.copyMemory(from: pixels + first * stride, byteCount: rows * stride)
            return rows
        }
        return try writer.finish(color: color)
    }
}
