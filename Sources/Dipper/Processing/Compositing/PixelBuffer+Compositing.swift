import CPixels
import CPixman

/// A layer to put on a picture: one colour everywhere, or another picture at a position with nothing around it.
enum CompositingLayer {
    case color(SIMD4<UInt8>)
    case image(Image, x: Int, y: Int)
}

extension PixelBuffer {
    /// Calls a closure with rectangles that together cover the buffer. Each is small enough for Pixman and for the time
    /// between two checks for cancellation.
    private func tiles(
        _ context: ProcessingContext, _ body: (PixelRect) throws(DipperError) -> Void
    ) throws(DipperError) {
        let columns = min(size.width, PixmanImage.longestSide)
        let rows = min(PixmanImage.longestSide, max(1, Image.pixelsAtATime / columns))
        for y in stride(from: 0, to: size.height, by: rows) {
            for x in stride(from: 0, to: size.width, by: columns) {
                try context.checkCancelled()
                try body(PixelRect(x: x, y: y, width: min(columns, size.width - x), height: min(rows, size.height - y)))
            }
        }
    }

    /// Returns Pixman's view of a part of the buffer.
    private func view(_ tile: PixelRect, exchanges: Bool) throws(DipperError) -> PixmanImage {
        try PixmanImage(row(tile.y) + tile.x * 4, tile.size, rowStride: rowStride, exchanges: exchanges)
    }

    /// Puts a layer on the pixels in the buffer.
    func composite(
        _ mode: ImageProcessors.Blend.Mode, _ layer: CompositingLayer, opacity: Double, _ context: ProcessingContext
    ) throws(DipperError) {
        let exchanges = mode.treatsColorsAlike
        var mask: PixmanImage?
        if opacity < 1 { mask = try PixmanImage(SIMD4(repeating: UInt8((opacity * 255).rounded())), exchanges: false) }
        try tiles(context) { tile throws(DipperError) in
            let target = try view(tile, exchanges: exchanges)
            let (source, x, y) = try Self.source(layer, in: tile, exchanges: exchanges)
            pixman_image_composite32(
                mode.operation, source.pointer, mask?.pointer, target.pointer, x, y, 0, 0, 0, 0,
                Int32(tile.size.width), Int32(tile.size.height))
            withExtendedLifetime((source, target)) {}
        }
        withExtendedLifetime((mask, layer)) {}
    }

    /// Returns the part of a layer that is in a tile, and the tile's origin relative to that part.
    private static func source(
        _ layer: CompositingLayer, in tile: PixelRect, exchanges: Bool
    ) throws(DipperError) -> (PixmanImage, Int32, Int32) {
        switch layer {
        case .color(let color): return (try PixmanImage(color, exchanges: exchanges), 0, 0)
        case .image(let image, let x, let y):
            let place = PixelRect(x: x - tile.x, y: y - tile.y, width: image.width, height: image.height)
            guard let seen = place.clipped(to: tile.size), let base = image.storage.bytes.baseAddress else {
                return (try PixmanImage(.zero, exchanges: exchanges), 0, 0)
            }
            let start = base + (seen.y - place.y) * image.rowStride + (seen.x - place.x) * 4
            let part = try PixmanImage(start, seen.size, rowStride: image.rowStride, exchanges: exchanges)
            return (part, Int32(-seen.x), Int32(-seen.y))
        }
    }

    /// Puts a picture on the pixels in the buffer, placed by a transform. Pixels are interpolated bilinearly; outside
    /// the picture there is nothing.
    /// - Parameters:
    ///   - image: at most ``PixmanImage/longestSide`` each way.
    ///   - transform: maps the pixels of the whole buffer to those of the picture.
    func composite(
        _ image: Image, through transform: pixman_f_transform, _ context: ProcessingContext
    ) throws(DipperError) {
        guard let base = image.storage.bytes.baseAddress else { throw .processingFailed }
        let source = try PixmanImage(base, image.size, rowStride: image.rowStride, exchanges: true)
        pixman_image_set_filter(source.pointer, PIXMAN_FILTER_BILINEAR, nil, 0)
        try tiles(context) { tile throws(DipperError) in
            let target = try view(tile, exchanges: true)
            // The tile's offset is a part of the floating-point transform, where the offset is not rounded.
            var (offset, moved) = (pixman_f_transform(), pixman_f_transform())
            pixman_f_transform_init_translate(&offset, Double(tile.x), Double(tile.y))
            withUnsafePointer(to: transform) { pixman_f_transform_multiply(&moved, $0, &offset) }
            var fixed = pixman_transform()
            guard pixman_transform_from_pixman_f_transform(&fixed, &moved) != 0,
                pixman_image_set_transform(source.pointer, &fixed) != 0
            else { throw .processingFailed.with(detail: "a picture of \(image.size) pixels is too large to be turned") }
            pixman_image_composite32(
                PIXMAN_OP_OVER, source.pointer, nil, target.pointer, 0, 0, 0, 0, 0, 0, Int32(tile.size.width),
                Int32(tile.size.height))
            withExtendedLifetime(target) {}
        }
        withExtendedLifetime((source, image)) {}
    }

    /// Makes all pixels one colour.
    func fill(_ color: SIMD4<UInt8>) {
        bytes.withMemoryRebound(to: SIMD4<UInt8>.self) { $0.update(repeating: color) }
    }

    /// Returns the finished picture. Compositing may round a colour up and its alpha down: such a colour becomes its
    /// alpha.
    consuming func settled(scale: Double) -> Image {
        var isOpaque = true
        for y in 0..<size.height {
            let row = row(y).assumingMemoryBound(to: UInt8.self)
            if !pixels_settle(row, size.width) { isOpaque = false }
        }
        return image(isOpaque: isOpaque, scale: scale)
    }
}
