extension Image {
    /// Returns the picture scaled to a size, or the picture itself if it has that size.
    /// - Parameter context: provides the limits, and is asked every few rows whether the work is cancelled.
    /// - Throws: `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func resized(to target: PixelSize, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard target != size else { return self }
        try context.limits.check(target)
        try RowWriter.checkMemory(from: size, to: target, .up, bandRows: 0, context.limits)
        var rows = try OrientedRows(target, .up)
        var resampler = try Resampler(from: size, to: target)
        // A step is about the same amount of work for pictures of any width.
        let step = max(1, (1 << 18) / width)
        var y = 0
        while y < height {
            try context.checkCancelled()
            let count = min(step, height - y)
            withPixels { bytes in
                guard let base = bytes.baseAddress else { return }
                resampler.add(base + y * rowStride, stride: rowStride, count: count, to: &rows)
            }
            y += count
        }
        return rows.finish().image(isOpaque: isOpaque, scale: scale)
    }
}
