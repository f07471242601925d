import CPixels

/// Rows of a picture in single precision, four numbers a pixel, made in order; the newest few are kept.
final class BlurRows {
    /// In pixels.
    let width: Int
    private let numbers: ClosedRange<Int>
    private let kept: Int
    private let memory: PixelStorage
    private let make: (_ row: UnsafeMutablePointer<Float>, _ number: Int) throws(DipperError) -> Void
    private var next: Int

    /// A halving weighs five rows at once.
    static let halvedRows = 5

    private init(
        width: Int, numbers: ClosedRange<Int>, kept: Int,
        _ make: @escaping (_ row: UnsafeMutablePointer<Float>, _ number: Int) throws(DipperError) -> Void
    ) throws(DipperError) {
        self.width = width
        self.numbers = numbers
        self.kept = kept
        self.make = make
        next = numbers.lowerBound
        memory = try PixelStorage(byteCount: width * 16 * kept)
    }

    /// Valid until as many later rows as are kept have been made. A row outside is like the nearest row.
    func row(_ number: Int) throws(DipperError) -> UnsafePointer<Float> {
        let number = min(max(number, numbers.lowerBound), numbers.upperBound)
        while next <= number {
            try make(place(of: next), next)
            next += 1
        }
        return UnsafePointer(place(of: number))
    }

    /// Returns neighbouring rows, of which no more are asked for than are kept.
    func rows(_ numbers: ClosedRange<Int>) throws(DipperError) -> [UnsafePointer<Float>?] {
        var rows: [UnsafePointer<Float>?] = []
        for number in numbers { rows.append(try row(number)) }
        return rows
    }

    private func place(of number: Int) -> UnsafeMutablePointer<Float> {
        let place = (number % kept + kept) % kept
        return memory.base.assumingMemoryBound(to: Float.self) + place * width * 4
    }

    static func widened(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> BlurRows {
        try BlurRows(width: image.width, numbers: 0...image.height - 1, kept: 1) { row, number throws(DipperError) in
            try context.checkCancelled()
            pixels_widen(row, image.row(number), image.width * 4)
        }
    }

    /// Returns a picture at half its size: pixel i is made of the five pixels around pixel 2 × i.
    ///
    /// Columns and rows begin at −2 and end two behind the last one that includes a part of the picture. All further
    /// ones are like the outermost one, also after another halving.
    static func halved(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> BlurRows {
        let width = BlurPlan.last(image.width, halvings: 1) + 5
        // A row of sums has repeated pixels before and behind it.
        let before = 6
        let sums = try PixelStorage(byteCount: (width * 2 + 3) * 8)
        let numbers = -2...BlurPlan.last(image.height, halvings: 1) + 2
        return try BlurRows(width: width, numbers: numbers, kept: halvedRows) { row, number throws(DipperError) in
            try context.checkCancelled()
            let values = sums.base.assumingMemoryBound(to: UInt16.self)
            let rows: [UnsafePointer<UInt8>?] = (-2...2).map { distance in
                image.row(min(max(number * 2 + distance, 0), image.height - 1))
            }
            pixels_halve_byte_rows(values + before * 4, rows, image.width * 4)
            values.extend(before..<before + image.width, to: width * 2 + 3)
            pixels_halve_words(row, values, width)
        }
    }

    /// Halves the rows of a halved picture again. Source and result begin at −2 and end two behind the last.
    static func halved(_ source: BlurRows) throws(DipperError) -> BlurRows {
        let width = (source.width - 5 + 1) / 2 + 5
        // Before the source's first pixel, which is pixel −2.
        let before = 4
        let sums = try PixelStorage(byteCount: max(width * 2 + 3, source.width + before) * 16)
        let numbers = -2...(source.numbers.upperBound - 2 + 1) / 2 + 2
        return try BlurRows(width: width, numbers: numbers, kept: halvedRows) { row, number throws(DipperError) in
            let values = sums.base.assumingMemoryBound(to: Float.self)
            let rows = try source.rows(number * 2 - 2...number * 2 + 2)
            pixels_halve_rows(values + before * 4, rows, source.width * 4)
            values.extend(before..<before + source.width, to: width * 2 + 3)
            pixels_halve_row(row, values, width)
        }
    }

    static func weighed(_ source: BlurRows, _ weights: [Float], kept: Int) throws(DipperError) -> BlurRows {
        let (width, numbers, radius) = (source.width, source.numbers, weights.count / 2)
        // A row of the source with repeated pixels before and behind it.
        let wide = try PixelStorage(byteCount: (width + weights.count) * 16)
        let across = try BlurRows(
            width: width, numbers: numbers, kept: weights.count
        ) { row, number throws(DipperError) in
            let values = wide.base.assumingMemoryBound(to: Float.self)
            (values + radius * 4).update(from: try source.row(number), count: width * 4)
            values.extend(radius..<radius + width, to: width + radius * 2)
            pixels_convolve(row, values, width, weights, weights.count)
        }
        return try BlurRows(width: width, numbers: numbers, kept: kept) { row, number throws(DipperError) in
            let rows = try across.rows(number - radius...number + radius)
            pixels_convolve_rows(row, rows, width * 4, weights, weights.count)
        }
    }
}

extension UnsafeMutablePointer {
    /// Repeats the first and the last pixel of a range before and behind the range. A pixel is four numbers.
    fileprivate func extend(_ pixels: Range<Int>, to end: Int) {
        for x in 0..<pixels.lowerBound { (self + x * 4).update(from: self + pixels.lowerBound * 4, count: 4) }
        for x in pixels.upperBound..<max(end, pixels.upperBound) {
            (self + x * 4).update(from: self + (pixels.upperBound - 1) * 4, count: 4)
        }
    }
}
