import CPixels
import CPixman

extension PixelBuffer {
    var bounds: PixelRect { PixelRect(x: 0, y: 0, width: size.width, height: size.height) }

    func fill(_ color: SIMD4<UInt8>, _ area: PixelRect? = nil) {
        let area = area ?? bounds
        for y in area.y..<area.y + area.size.height {
            let start = (row(y) + area.x * 4).assumingMemoryBound(to: SIMD4<UInt8>.self)
            start.update(repeating: color, count: area.size.width)
        }
    }

    func composite(
        _ mode: ImageProcessors.Blend.Mode, _ layer: ImageProcessors.Blend.Layer, opacity: Double = 1,
        in area: PixelRect? = nil, _ context: ProcessingContext
    ) throws(DipperError) {
        var area = area ?? bounds
        let exchanges = mode.treatsColorsAlike
        var mask: PixmanImage?
        if opacity < 1 { mask = try PixmanImage(SIMD4(repeating: UInt8((opacity * 255).rounded())), exchanges: false) }
        switch layer {
        case .color(let color):
            let source = try PixmanImage(color.premultiplied, exchanges: exchanges)
            try composite(mode.operation, mask, area, exchanges, context) { _ in (source, 0, 0) }
        case .image(let image, let anchor):
            let (x, y) = anchor.offset(of: image.size, in: area.size)
            let place = PixelRect(x: area.x + x, y: area.y + y, width: image.width, height: image.height)
            // Around the picture nothing changes. Pixman is fast where a source is everywhere.
            if mode == .over { area = place.overlap(area) ?? area }
            try composite(mode.operation, mask, area, exchanges, context) { tile throws(DipperError) in
                guard let seen = place.overlap(tile) else {
                    return (try PixmanImage(.zero, exchanges: exchanges), 0, 0)
                }
                let start = image.row(seen.y - place.y) + (seen.x - place.x) * 4
                let part = try PixmanImage(start, seen.size, rowStride: image.rowStride, exchanges: exchanges)
                return (part, Int32(tile.x - seen.x), Int32(tile.y - seen.y))
            }
            withExtendedLifetime(image) {}
        }
    }

    /// Puts a picture of at most ``PixmanImage/longestSide`` each way on the pixels, interpolated bilinearly; outside
    /// it there is nothing. The transform maps the pixels of the whole buffer to those of the picture.
    func composite(
        _ image: Image, through transform: pixman_f_transform, _ context: ProcessingContext
    ) throws(DipperError) {
        let source = try PixmanImage(image.row(0), image.size, rowStride: image.rowStride, exchanges: true)
        pixman_image_set_filter(source.pointer, PIXMAN_FILTER_BILINEAR, nil, 0)
        try composite(PIXMAN_OP_OVER, nil, bounds, true, context) { tile throws(DipperError) in
            // The tile's offset is a part of the floating-point transform, where the offset is not rounded.
            var (offset, moved) = (pixman_f_transform(), pixman_f_transform())
            pixman_f_transform_init_translate(&offset, Double(tile.x), Double(tile.y))
            withUnsafePointer(to: transform) { pixman_f_transform_multiply(&moved, $0, &offset) }
            var fixed = pixman_transform()
            guard pixman_transform_from_pixman_f_transform(&fixed, &moved) != 0,
                pixman_image_set_transform(source.pointer, &fixed) != 0
            else { throw .processingFailed.with(detail: "a picture of \(image.size) pixels is too large to be turned") }
            return (source, 0, 0)
        }
        withExtendedLifetime(image) {}
    }

    /// Puts a source on an area, in tiles small enough for Pixman and for the time between two checks for cancellation.
    /// The closure returns the source for a tile, and the position of the tile in it.
    private func composite(
        _ operation: pixman_op_t, _ mask: PixmanImage?, _ area: PixelRect, _ exchanges: Bool,
        _ context: ProcessingContext,
        _ sourceOf: (_ tile: PixelRect) throws(DipperError) -> (PixmanImage, Int32, Int32)
    ) throws(DipperError) {
        let columns = min(area.size.width, PixmanImage.longestSide)
        let rows = min(PixmanImage.longestSide, max(1, Image.pixelsAtATime / columns))
        for top in stride(from: 0, to: area.size.height, by: rows) {
            for left in stride(from: 0, to: area.size.width, by: columns) {
                try context.checkCancelled()
                let tile = PixelRect(
                    x: area.x + left, y: area.y + top, width: min(columns, area.size.width - left),
                    height: min(rows, area.size.height - top))
                let start = row(tile.y) + tile.x * 4
                let target = try PixmanImage(start, tile.size, rowStride: rowStride, exchanges: exchanges)
                let (source, x, y) = try sourceOf(tile)
                pixman_image_composite32(
                    operation, source.pointer, mask?.pointer, target.pointer, x, y, 0, 0, 0, 0,
                    Int32(tile.size.width), Int32(tile.size.height))
                withExtendedLifetime((source, mask, target)) {}
            }
        }
    }

    /// Compositing may round a colour up and its alpha down: such a colour becomes its alpha.
    consuming func settled(scale: Double) -> Image {
        var isOpaque = true
        for y in 0..<size.height {
            let row = row(y).assumingMemoryBound(to: UInt8.self)
            if !pixels_settle(row, size.width) { isOpaque = false }
        }
        return image(isOpaque: isOpaque, scale: scale)
    }
}

/// Pixels, which the caller must keep in memory, or one colour, as an image of Pixman.
final class PixmanImage {
    let pointer: OpaquePointer

    /// Pixman's name for RGBA in memory, in either byte order. `exchanges` names red blue and blue red: if an operation
    /// treats both alike, Pixman has special loops for that name.
    private static func format(_ exchanges: Bool) -> pixman_format_code_t {
        #if _endian(little)
            exchanges ? PIXMAN_a8r8g8b8 : PIXMAN_a8b8g8r8
        #else
            exchanges ? PIXMAN_b8g8r8a8 : PIXMAN_r8g8b8a8
        #endif
    }

    /// In pixels. Positions in Pixman have 16 bits, so larger pictures are given to Pixman in parts.
    static let longestSide = 16_384

    /// The size is at most ``longestSide`` each way.
    init(_ base: UnsafeRawPointer, _ size: PixelSize, rowStride: Int, exchanges: Bool) throws(DipperError) {
        // Pixman does not write to sources, but has one type for sources and targets.
        let bits = UnsafeMutableRawPointer(mutating: base).assumingMemoryBound(to: UInt32.self)
        guard
            let pointer = pixman_image_create_bits(
                Self.format(exchanges), Int32(size.width), Int32(size.height), bits, Int32(rowStride))
        else { throw .processingFailed.with(detail: "there is no memory") }
        self.pointer = pointer
    }

    init(_ color: SIMD4<UInt8>, exchanges: Bool) throws(DipperError) {
        func wide(_ part: UInt8) -> UInt16 { UInt16(part) * 257 }
        let (red, blue) = exchanges ? (color.z, color.x) : (color.x, color.z)
        var color = pixman_color(red: wide(red), green: wide(color.y), blue: wide(blue), alpha: wide(color.w))
        guard let pointer = pixman_image_create_solid_fill(&color) else {
            throw .processingFailed.with(detail: "there is no memory")
        }
        self.pointer = pointer
    }

    deinit {
        pixman_image_unref(pointer)
    }
}

extension ImageProcessors.Blend.Mode {
    /// Pixman numbers Porter and Duff's operators, and after a gap the other modes, in the order of the cases.
    private static let operations = Dictionary(
        uniqueKeysWithValues: zip(
            allCases,
            [
                PIXMAN_OP_CLEAR.rawValue...PIXMAN_OP_ADD.rawValue,
                PIXMAN_OP_MULTIPLY.rawValue...PIXMAN_OP_HSL_LUMINOSITY.rawValue,
            ].joined()))

    fileprivate var operation: pixman_op_t { pixman_op_t(Self.operations[self] ?? PIXMAN_OP_OVER.rawValue) }

    /// Whether the mode treats red, green and blue alike, so that red and blue may be exchanged.
    fileprivate var treatsColorsAlike: Bool { operation.rawValue < PIXMAN_OP_HSL_HUE.rawValue }
}
