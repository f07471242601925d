import CPixels

extension Image {
    /// Work between two looks at whether it is still wanted, in pixels.
    static let pixelsAtATime = 1 << 18

    /// A copy whose rows are changed in place, one after the other, while they are near.
    /// - Parameters:
    ///   - isOpaque: of the result; `nil` if that is to be looked for.
    ///   - change: is given the first byte of a row, and its number.
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

    /// A part of the picture, which is inside it.
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
            // What was transparent may have been cut off.
            if !self.isOpaque, isOpaque {
                isOpaque = pixels_are_opaque(to.assumingMemoryBound(to: UInt8.self), size.width)
            }
        }
        return buffer.image(isOpaque: isOpaque, scale: scale)
    }

    /// The picture turned and mirrored; itself if it is upright.
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
}
