import CPixels

/// An immutable picture, ready to draw: premultiplied RGBA, eight bits each, in sRGB, upright.
///
/// Copies of the value share the pixels. An ``ImageCache`` loads pictures; a ``CodecRegistry`` decodes them from files,
/// and encodes them as files.
///
/// ```swift
/// let image = try await cache.getImage(url).value
/// print(image.width, image.height, image.isOpaque, image.animation?.frameCount ?? 1)
/// let file = try image.processed(by: .circle).encoded(as: .png)
/// ```
public struct Image: Sendable {
    /// The owner of the pixels' memory. Keep a reference to it while you use the pixels without copying them.
    ///
    /// For GTK 4: create a `GBytes` over ``PixelStorage/bytes`` whose free function releases the storage. From it
    /// create a `GdkMemoryTexture` with the format `GDK_MEMORY_R8G8B8A8_PREMULTIPLIED` and ``rowStride``.
    ///
    /// ```swift
    /// let pixels = image.storage.bytes
    /// let owner = Unmanaged.passRetained(image.storage).toOpaque()
    /// let release: @convention(c) (UnsafeMutableRawPointer?) -> Void = { owner in
    ///     if let owner { Unmanaged<PixelStorage>.fromOpaque(owner).release() }
    /// }
    /// // g_bytes_new_with_free_func(pixels.baseAddress, gsize(pixels.count), release, owner)
    /// ```
    public let storage: PixelStorage
    /// The width and height in pixels.
    public let size: PixelSize
    /// The number of bytes from one row to the next; at least four times the width.
    public let rowStride: Int
    /// Whether every pixel has an alpha of 255.
    public let isOpaque: Bool
    /// The number of pixels for each point of the display.
    public var scale: Double
    /// The frames of an animated picture; `nil` for a still one.
    public var animation: ImageAnimation?

    /// The width in pixels.
    public var width: Int { size.width }
    /// The height in pixels.
    public var height: Int { size.height }

    /// The memory that the picture uses, in bytes. An animation adds the bytes of its encoded file and of the frames
    /// decoded ahead.
    public var byteCount: Int { rowStride * height + (animation?.byteCount ?? 0) }

    /// In bytes, including the padding of pixels to whole pages. Memory limits count this value.
    var footprint: Int { storage.capacity + (animation?.footprint ?? 0) }

    /// Calls a closure with the pixels: `height` rows of ``rowStride`` bytes, each beginning with `width` pixels of
    /// red, green, blue and alpha, with the colours multiplied by alpha.
    ///
    /// ```swift
    /// let rows = image.withPixels { bytes in
    ///     (0..<image.height).map { y in Data(bytes[y * image.rowStride..<y * image.rowStride + image.width * 4]) }
    /// }
    /// ```
    public func withPixels<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(storage.bytes)
    }

    /// Returns a copy of the pixels with straight alpha, for toolkits and libraries that expect it: `height` rows, top to
    /// bottom, without gaps, of `width` pixels of red, green, blue and alpha, with the colours divided by alpha. Of a
    /// transparent pixel all four bytes are 0.
    ///
    /// ```swift
    /// let bytes = image.straightRGBA()
    /// let blue = bytes[(2 * image.width + 5) * 4 + 2]            // of the sixth pixel of the third row
    /// ```
    public func straightRGBA() -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: width * height * 4) { bytes, count in
            count = width * height * 4
            guard let start = bytes.baseAddress else { return }
            for y in 0..<height {
                let line = start + y * width * 4
                if isOpaque {
                    line.update(from: row(y), count: width * 4)
                } else {
                    pixels_unpremultiply(line, row(y), width)
                }
            }
        }
    }

    /// The first byte of a row, valid while the storage is held.
    func row(_ y: Int) -> UnsafePointer<UInt8> {
        UnsafePointer((storage.base + y * rowStride).assumingMemoryBound(to: UInt8.self))
    }

    /// Returns the picture for as long as somebody holds its pixels and its animation, without keeping them.
    var held: @Sendable () -> Image? {
        let moves = animation != nil
        return { [weak storage, weak animation, size, rowStride, isOpaque, scale] in
            let present = animation
            guard let storage, !moves || present != nil else { return nil }
            return Image(
                storage: storage, size: size, rowStride: rowStride, isOpaque: isOpaque, scale: scale,
                animation: present)
        }
    }

    func at(scale: Double) -> Image {
        var image = self
        image.scale = scale
        return image
    }

    /// The pixel at a position: red, green, blue and alpha, with the colours multiplied by alpha.
    public subscript(x: Int, y: Int) -> SIMD4<UInt8> {
        precondition(x >= 0 && x < width && y >= 0 && y < height, "The pixel is inside the picture.")
        return storage.bytes.loadUnaligned(fromByteOffset: y * rowStride + x * 4, as: SIMD4<UInt8>.self)
    }
}

extension Image {
    /// Creates a picture from the caller's pixels: rows of premultiplied red, green, blue and alpha, without gaps, top
    /// to bottom.
    ///
    /// ```swift
    /// let pixels: [UInt8] = (0...255).flatMap { [$0, $0, $0, 255] }
    /// let gradient = Image(size: PixelSize(width: 256, height: 1), premultiplied: pixels)
    /// ```
    /// - Returns: `nil` if the number of bytes is not `width × height × 4`, the size is empty or a side is above 2^24
    ///   pixels, a colour is above its alpha, or there is no memory.
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
        // Iterating over an unspecialized collection is slow: only for those without contiguous storage.
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
