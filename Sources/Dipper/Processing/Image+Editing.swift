import CPixels

extension Image {
    static let pixelsAtATime = 1 << 18

    /// A closure writes the rows in order. `isOpaque` of `nil` is found out from each row while in the CPU's cache.
    init(
        _ size: PixelSize, scale: Double, isOpaque: Bool?, _ context: ProcessingContext,
        rows write: (_ row: UnsafeMutablePointer<UInt8>, _ y: Int) throws(DipperError) -> Void
    ) throws(DipperError) {
        try context.limits.checkMemory(size)
        let buffer = try PixelBuffer(size)
        var seemsOpaque = true
        let step = max(1, Self.pixelsAtATime / size.width)
        for y in 0..<size.height {
            if y % step == 0 { try context.checkCancelled() }
            let row = buffer.row(y).assumingMemoryBound(to: UInt8.self)
            try write(row, y)
            if isOpaque == nil, seemsOpaque { seemsOpaque = pixels_are_opaque(row, size.width) }
        }
        self = buffer.image(isOpaque: isOpaque ?? seemsOpaque, scale: scale)
    }

    func edited(
        _ context: ProcessingContext, isOpaque: Bool?,
        _ change: (_ row: UnsafeMutablePointer<UInt8>, _ y: Int) -> Void
    ) throws(DipperError) -> Image {
        try Image(size, scale: scale, isOpaque: isOpaque, context) { copy, y in
            copy.update(from: row(y), count: width * 4)
            change(copy, y)
        }
    }

    /// The part must lie inside the picture. If it has the picture's size, the picture itself is returned.
    func part(_ area: PixelRect, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard area.size != size else { return self }
        // The part may leave out all transparent pixels.
        return try Image(area.size, scale: scale, isOpaque: isOpaque ? true : nil, context) { copy, y in
            copy.update(from: row(area.y + y) + area.x * 4, count: area.size.width * 4)
        }
    }

    /// Returns the picture turned and mirrored as if it were stored in an orientation, or the picture itself for `.up`.
    func turned(_ orientation: Orientation, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard orientation != .up else { return self }
        try context.limits.checkMemory(size)
        var rows = try OrientedRows(size, orientation)
        while rows.committed < height {
            try context.checkCancelled()
            let (memory, count) = rows.memory(rows: height)
            for y in 0..<count {
                (memory + y * width * 4).copyMemory(from: row(rows.committed + y), byteCount: width * 4)
            }
            rows.commit(count)
        }
        return rows.finish().image(isOpaque: isOpaque, scale: scale)
    }

    func resized(to target: PixelSize, _ context: ProcessingContext) throws(DipperError) -> Image {
        guard target != size else { return self }
        try context.limits.check(target)
        try context.limits.check(bytes: RowWriter.byteCount(from: size, to: target))
        var rows = try OrientedRows(target, .up)
        var resampler = try Resampler(from: size, to: target)
        let step = max(1, Self.pixelsAtATime / width)
        for y in stride(from: 0, to: height, by: step) {
            try context.checkCancelled()
            resampler.add(row(y), stride: rowStride, count: min(step, height - y), to: &rows)
        }
        return rows.finish().image(isOpaque: isOpaque, scale: scale)
    }

    func on(_ background: Color, _ context: ProcessingContext) throws(DipperError) -> Image {
        let color = background.premultiplied
        guard !isOpaque, color.w > 0 else { return self }
        return try edited(context, isOpaque: color.w == 255 ? true : nil) { row, _ in
            row.layBehind(color, count: width)
        }
    }
}

extension UnsafeMutablePointer<UInt8> {
    func layBehind(_ color: SIMD4<UInt8>, count: Int) {
        pixels_behind(self, count, [color.x, color.y, color.z, color.w])
    }
}
