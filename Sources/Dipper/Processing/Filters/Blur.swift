import CPixels

extension ImageProcessors {
    /// A processor that softens a picture, as if seen through frosted glass: each pixel becomes a mean of the pixels
    /// around it, weighed with a Gaussian curve.
    ///
    /// Beyond its edges the picture continues with the pixels at the edge, so edges do not become dark. Colours are
    /// premultiplied, so the colours of transparent pixels do not show. The result is within 1 of 255 of the exact
    /// filter with weights up to 3.3 standard deviations: wide curves are computed on a picture that similar curves
    /// have made smaller, and then interpolated.
    ///
    /// ```swift
    /// let soft = ImageRequest(url).processed(by: .blur(10))
    /// ```
    public struct Blur: ImageProcessor, Hashable {
        /// The standard deviation in pixels, which CSS calls the radius of a blur.
        public let sigma: Double

        /// Creates a processor for a standard deviation.
        /// - Parameter sigma: the standard deviation in pixels. A value from 0 to less than 0.2 changes nothing; a
        ///   value above 10,000 counts as 10,000.
        public init(_ sigma: Double) {
            self.sigma = sigma
        }

        /// The identifier, for example `blur(10.0)`.
        public var identifier: String { "blur(\(sigma))" }

        /// Returns the blurred picture.
        /// - Throws: `DipperError.processingFailed` for a deviation that is below 0 or NaN;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard sigma >= 0 else { throw .processingFailed }
            guard sigma >= 0.2 else { return image }
            let plan = BlurPlan(image.size, sigma: min(sigma, 10_000))
            try context.limits.checkMemory(image.size)
            try context.limits.check(bytes: image.width * image.height * 4 + plan.byteCount)
            let buffer = try PixelBuffer(image.size)
            let rows = try plan.rows(of: image, context)
            // The rows that the object returns point into its memory.
            defer { withExtendedLifetime(rows) {} }
            if plan.halvings == 0 {
                for y in 0..<image.height {
                    pixels_round(buffer.row(y).assumingMemoryBound(to: UInt8.self), try rows.row(y), image.width)
                }
            } else {
                try interpolate(rows, step: 1 << plan.halvings, into: buffer)
            }
            return buffer.image(isOpaque: image.isOpaque, scale: image.scale)
        }

        /// Enlarges the rows to the picture's size, with cubic curves through four of the small picture's pixels each
        /// way.
        private func interpolate(
            _ rows: any BlurRows, step: Int, into buffer: borrowing PixelBuffer
        ) throws(DipperError) {
            let weights = (0..<step).map { CubicWeights(at: Double($0) / Double(step)).values }
            let table = (0..<4).flatMap { tap in weights.flatMap { [Float](repeating: $0[tap], count: 4) } }
            let between = try PixelScratch(byteCount: rows.width * 16)
            defer { withExtendedLifetime(between) {} }
            let values = between.base.assumingMemoryBound(to: Float.self)
            let ring = try BlurRing(width: rows.width, rows: 4)
            defer { withExtendedLifetime(ring) {} }
            var next = -1
            for y in 0..<buffer.size.height {
                let first = y / step - 1
                while next <= first + 3 {
                    ring.slot(next).update(from: try rows.row(next), count: rows.width * 4)
                    next += 1
                }
                let sources = (first...first + 3).map { UnsafePointer<Float>?(ring.slot($0)) }
                pixels_convolve_rows(values, sources, rows.width * 4, weights[y % step], 4)
                // The rows begin two pixels before the picture; the four pixels for the first result begin one before
                // it.
                let to = buffer.row(y).assumingMemoryBound(to: UInt8.self)
                pixels_interpolate(to, values + 4, buffer.size.width, table, step)
            }
        }
    }
}

/// The weights of four pixels for a place between the second, at 0, and the third, at 1 (Keys 1981, a = −½).
struct CubicWeights {
    let values: [Float]

    init(at t: Double) {
        let (square, cube) = (t * t, t * t * t)
        let weights = [
            -cube + 2 * square - t, 3 * cube - 5 * square + 2, -3 * cube + 4 * square + t, cube - square,
        ]
        values = weights.map { Float($0 / 2) }
    }
}
