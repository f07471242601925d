import Foundation

/// An immutable picture, ready to draw: premultiplied RGBA, eight bits each, in sRGB, upright.
///
/// A handle: copies share the pixels.
public struct Image: Sendable {
    /// Holds the pixels' memory; keep it where they are used without a copy.
    ///
    /// For GTK 4: make a `GBytes` over ``PixelStorage/bytes`` whose free function releases the storage, and of that a
    /// `GdkMemoryTexture` of the format `GDK_MEMORY_R8G8B8A8_PREMULTIPLIED` with ``rowStride``.
    public let storage: PixelStorage
    /// In pixels.
    public let size: PixelSize
    /// Bytes from one row to the next; at least four times the width.
    public let rowStride: Int
    /// Every pixel's alpha is 255.
    public let isOpaque: Bool
    /// Pixels for each point of the display.
    public var scale: Double
    /// The other frames, if the picture moves.
    public var animation: ImageAnimation?

    init(storage: PixelStorage, size: PixelSize, rowStride: Int, isOpaque: Bool, scale: Double) {
        self.storage = storage
        self.size = size
        self.rowStride = rowStride
        self.isOpaque = isOpaque
        self.scale = scale
    }

    /// In pixels.
    public var width: Int { size.width }
    /// In pixels.
    public var height: Int { size.height }

    /// What the picture takes in memory, in bytes; frames that are not decoded count by their encoded bytes.
    public var byteCount: Int { rowStride * height + (animation?.byteCount ?? 0) }

    /// The same with what is taken beside the pixels, which are kept in whole pages: what a limit of memory counts.
    var footprint: Int { storage.capacity + (animation?.footprint ?? 0) }

    /// Gives access to the pixels: `height` rows of ``rowStride`` bytes, each beginning with `width` pixels of
    /// red, green, blue and alpha, colours multiplied by alpha.
    public func withPixels<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.bytes)
    }

    /// The same pixels at another ``scale``.
    func at(scale: Double) -> Image {
        var image = self
        image.scale = scale
        return image
    }

    /// One pixel: red, green, blue, alpha; colours multiplied by alpha.
    public subscript(x: Int, y: Int) -> SIMD4<UInt8> {
        precondition(x >= 0 && x < width && y >= 0 && y < height, "The pixel is inside the picture.")
        return storage.bytes.loadUnaligned(fromByteOffset: y * rowStride + x * 4, as: SIMD4<UInt8>.self)
    }
}

extension Image {
    /// A picture from pixels of the caller's: rows of premultiplied red, green, blue and alpha, one after the other
    /// without gaps, top to bottom.
    /// - Returns: `nil` if the number of bytes is not `width × height × 4`, a colour is above its alpha, or there is no
    ///   memory.
    public init?(size: PixelSize, premultiplied pixels: some Collection<UInt8>, scale: Double = 1) {
        guard let image = try? Self.copy(size, pixels, scale) else { return nil }
        self = image
    }

    private static func copy(
        _ size: PixelSize, _ pixels: some Collection<UInt8>, _ scale: Double
    ) throws(DipperError) -> Image? {
        guard !size.isEmpty, size.width <= 1 << 24, size.height <= 1 << 24,
            pixels.count == size.width * size.height * 4
        else { return nil }
        let buffer = try PixelBuffer(size)
        // A collection of no known type is slow: it is left to those that have no memory of their own.
        let isCopied = pixels.withContiguousStorageIfAvailable { buffer.bytes.copyMemory(from: .init($0)) } != nil
        if !isCopied { _ = buffer.bytes.initializeMemory(as: UInt8.self, from: pixels) }
        var isOpaque = true
        for pixel in buffer.bytes.bindMemory(to: SIMD4<UInt8>.self) {
            let alpha = pixel.w
            guard pixel.x <= alpha, pixel.y <= alpha, pixel.z <= alpha else { return nil }
            if alpha != 255 { isOpaque = false }
        }
        return buffer.image(isOpaque: isOpaque, scale: scale)
    }
}
