/// The picture that the frames of a GIF or a PNG are drawn on, one over the other. It is transparent at first.
final class AnimationCanvas {
    /// The treatment of a frame's area before the next frame is drawn.
    enum Disposal {
        case keep
        /// The area becomes transparent.
        case clear
        /// The area becomes what it was before the frame.
        case restore
    }

    /// In bytes for each pixel: the canvas, and an area to restore.
    static let bytesPerPixel = 8

    private let pixels: PixelBuffer
    /// The area to restore before the next frame is drawn, and its pixels; `nil` if it becomes transparent.
    private var disposal: (area: PixelRect, pixels: PixelStorage?)?

    init(_ size: PixelSize) throws(DipperError) {
        pixels = try PixelBuffer(size)
        pixels.clear()
    }

    var bounds: PixelRect { pixels.bounds }

    func restart() {
        pixels.clear()
        disposal = nil
    }

    /// Disposes of the frame before, and begins one: `nil` if it is outside.
    func begin(_ area: PixelRect?, _ disposal: Disposal) throws(DipperError) {
        dispose()
        guard let area else { return }
        switch disposal {
        case .keep: break
        case .clear: self.disposal = (area, nil)
        case .restore: self.disposal = (area, try copy(of: area))
        }
    }

    private func dispose() {
        guard let (area, saved) = disposal else { return }
        defer { disposal = nil }
        // mutant PictureTests: `{ return pixels.fill(.zero, area) }` => `{ return }`
        guard let saved else { return pixels.fill(.zero, area) }
        let start = saved.base.assumingMemoryBound(to: UInt32.self)
        let width = area.size.width
        for y in 0..<area.size.height { row(y, of: area).update(from: start + y * width, count: width) }
    }

    private func copy(of area: PixelRect) throws(DipperError) -> PixelStorage {
        let width = area.size.width
        let copy = try PixelStorage(byteCount: width * area.size.height * 4)
        let start = copy.base.assumingMemoryBound(to: UInt32.self)
        for y in 0..<area.size.height { (start + y * width).update(from: row(y, of: area), count: width) }
        return copy
    }

    func row(_ y: Int, of area: PixelRect) -> UnsafeMutablePointer<UInt32> {
        pixels.row(area.y + y).assumingMemoryBound(to: UInt32.self) + area.x
    }

    /// Draws a picture of the area's size, over what is there or in its place.
    func draw(_ image: Image, in area: PixelRect, isOver: Bool, _ options: DecodeOptions) throws(DipperError) {
        if isOver, !image.isOpaque {
            let context = ProcessingContext(limits: options.limits, isCancelled: options.isCancelled)
            return try pixels.composite(.over, .image(image, .topLeft), in: area, context)
        }
        for y in 0..<area.size.height {
            UnsafeMutableRawPointer(row(y, of: area)).copyMemory(from: image.row(y), byteCount: area.size.width * 4)
        }
        withExtendedLifetime(image) {}
    }

    func image(orientation: Image.Orientation = .up, _ options: DecodeOptions) throws(DipperError) -> Image {
        try RowWriter.image(
            of: pixels.base, pixels.size, picture: pixels.size, alpha: .premultiplied, orientation: orientation,
            options)
    }
}
