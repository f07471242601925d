import CPixels

extension Image {
    /// Between two checks for cancellation.
    static let pixelsAtATime = 1 << 18

    /// Returns a copy of the picture in which a closure has changed each row in place, right after it was copied, while
    /// it is in the CPU's cache.
    /// - Parameters:
    ///   - isOpaque: whether the result is opaque; `nil` to find out from its pixels.
    ///   - change: is given the first byte of each row and the row's number, from top to bottom.
    func edited(
        _ context: ProcessingContext, isOpaque: Bool?,
        _ change: (_ row: UnsafeMutablePointer<UInt8>, _ y: Int) throws(DipperError) -> Void
    ) throws(DipperError) -> Image {
        try context.limits.checkMemory(size)
        let buffer = try PixelBuffer(size)
        var seemsOpaque = true
        let step = max(1, Self.pixelsAtATime / width)
        for y in 0..<height {
            if y % step == 0 { try context.checkCancelled() }
            let row = buffer.row(y)
            guard let base = storage.bytes.baseAddress else { throw .processingFailed }
            row.copyMemory(from: base + y * rowStride, byteCount: width * 4)
            let pixels = row.assumingMemoryBound(to: UInt8.self)
            try change(pixels, y)
            if isOpaque == nil, seemsOpaque { seemsOpaque = pixels_are_opaque(pixels, width) }
        }
        return buffer.image(isOpaque: isOpaque ?? seemsOpaque, scale: scale)
    }

    /// The part must lie inside the picture. If it has the picture's size, the picture itself is returned.
    func part(
        _ size: PixelSize, x: Int, y: Int, _ context: ProcessingContext
    ) throws(DipperError) -> Image {
        guard size != self.size else { return self }
        try context.limits.checkMemory(size)
        let buffer = try PixelBuffer(size)
        let step = max(1, Self.pixelsAtATime / size.width)
        var isOpaque = true
        for row in 0..<size.height {
            if row % step == 0 { try context.checkCancelled() }
            guard let base = storage.bytes.baseAddress else { throw .processingFailed }
            let to = buffer.row(row)
            to.copyMemory(from: base + (y + row) * rowStride + x * 4, byteCount: size.width * 4)
            // The part may leave out all transparent pixels.
            if !self.isOpaque, isOpaque {
                isOpaque = pixels_are_opaque(to.assumingMemoryBound(to: UInt8.self), size.width)
            }
        }
        return buffer.image(isOpaque: isOpaque, scale: scale)
    }

    /// Returns the picture turned and mirrored as if it were stored in an orientation, or the picture itself for `.up`.
    func turned(_ orientation: Orientation, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard orientation != .up else { return self }
        try context.limits.checkMemory(size)
        var rows = try OrientedRows(size, orientation)
        while rows.committed < height {
            try context.checkCancelled()
            let (memory, count) = rows.memory(rows: height)
            guard let base = storage.bytes.baseAddress else { throw .processingFailed }
            for row in 0..<count {
                let from = base + (rows.committed + row) * rowStride
                (memory + row * width * 4).copyMemory(from: from, byteCount: width * 4)
            }
            rows.commit(count)
        }
        return rows.finish().image(isOpaque: isOpaque, scale: scale)
    }

    /// Returns the picture itself if it has that size. The context is asked every few rows whether the work is
    /// cancelled. Throws `DipperError.imageTooLarge`, `DipperError.cancelled`.
    func resized(to target: PixelSize, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard target != size else { return self }
        try context.limits.check(target)
        try RowWriter.checkMemory(from: size, to: target, .up, bandRows: 0, context.limits)
        var rows = try OrientedRows(target, .up)
        var resampler = try Resampler(from: size, to: target)
        let step = max(1, Self.pixelsAtATime / width)
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

    /// Returns the picture itself if the colour would not be visible.
    func on(_ background: Color, _ context: ProcessingContext) throws(DipperError) -> Image {
        let color = background.premultiplied
        guard !isOpaque, color.w > 0 else { return self }
        return try edited(context, isOpaque: color.w == 255 ? true : nil) { row, _ in
            row.layBehind(color, count: width)
        }
    }
}

extension UnsafeMutablePointer {
    /// The colour is premultiplied.
    func layBehind(_ color: SIMD4<UInt8>, count: Int) {
        withUnsafeBytes(of: color) { color in
            guard let color = color.bindMemory(to: UInt8.self).baseAddress else { return }
            pixels_behind(UnsafeMutableRawPointer(self).assumingMemoryBound(to: UInt8.self), count, color)
        }
    }
}
