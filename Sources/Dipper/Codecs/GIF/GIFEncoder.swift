#if GIF
    import CGIF
    import Foundation
    import Synchronization

    /// An encoder for still and animated GIF 89a, by giflib: 256 colours for each frame, each pixel opaque or
    /// transparent. A picture of few colours keeps them exactly; others get the colours of giflib's median cut. Pixels
    /// with less than half of full alpha become transparent. Durations are rounded to hundredths of a second.
    ///
    /// ```swift
    /// var frames: [AnimationFrame] = []
    /// let decoder = try image.animation?.makeFrameDecoder()
    /// while let frame = try decoder?.next() { frames.append(frame) }
    /// let file = try GIFEncoder().encode(frames, loopCount: 0, EncodeOptions())
    /// ```
    public struct GIFEncoder: ImageEncoder {
        /// The format ``ImageFormat/gif``.
        public let format = ImageFormat.gif

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            let writer = try GIFWriter(image.size, loopCount: 1)
            try writer.add(IndexedPixels(image), duration: nil)
            return try writer.finish()
        }

        public func encode(
            _ frames: [AnimationFrame], loopCount: Int, _ options: EncodeOptions
        ) throws(DipperError) -> Data {
            guard let first = frames.first else { throw .unencodable.with(detail: "there are no frames") }
            let size = first.image.size
            let writer = try GIFWriter(size, loopCount: loopCount)
            for frame in frames {
                guard frame.image.size == size else {
                    throw .unencodable.with(detail: "frames of \(size) and of \(frame.image.size) pixels")
                }
                try writer.add(IndexedPixels(frame.image), duration: frame.duration)
            }
            return try writer.finish()
        }
    }

    private final class GIFWriter {
        private let output = GIFOutput()
        private var file: UnsafeMutablePointer<GifFileType>?
        private let size: PixelSize

        /// The animation plays `loopCount` times; 0 for endlessly.
        init(_ size: PixelSize, loopCount: Int) throws(DipperError) {
            self.size = size
            guard size.width <= 0xFFFF, size.height <= 0xFFFF else {
                throw .unencodable.with(detail: "GIF: \(size) pixels")
            }
            guard (0...0x10000).contains(loopCount) else {
                throw .unencodable.with(detail: "GIF: shown \(loopCount) times")
            }
            var error: Int32 = 0
            file = EGifOpen(
                Unmanaged.passUnretained(output).toOpaque(),
                { file, bytes, count in
                    guard let file, let bytes, let user = file.pointee.UserData else { return 0 }
                    let output = Unmanaged<GIFOutput>.fromOpaque(user).takeUnretainedValue()
                    output.data.append(bytes, count: Int(count))
                    return count
                }, &error)
            guard let file else { throw .unencodable.with(detail: "GIF: no memory") }
            EGifSetGifVersion(file, true)
            try check(EGifPutScreenDesc(file, Int32(size.width), Int32(size.height), 8, 0, nil))
            if loopCount != 1 { try putRepetitions(max(0, loopCount - 1), to: file) }
        }

        deinit {
            if let file { EGifCloseFile(file, nil) }
        }

        /// The duration is `nil` for a still picture.
        func add(_ pixels: IndexedPixels, duration: Duration?) throws(DipperError) {
            guard let file else { throw Self.broken }
            if duration != nil || pixels.transparent != nil { try putControl(pixels, duration, to: file) }
            // giflib copies the palette.
            guard let map = GifMakeMapObject(Int32(pixels.palette.count), pixels.palette) else { throw Self.broken }
            defer { GifFreeMapObject(map) }
            try check(EGifPutImageDesc(file, 0, 0, Int32(size.width), Int32(size.height), false, map))
            var line = [UInt8](repeating: 0, count: size.width)
            for y in 0..<size.height {
                // giflib may change the row that it is given.
                for x in 0..<size.width { line[x] = pixels.indices[y * size.width + x] }
                try check(EGifPutLine(file, &line, Int32(size.width)))
            }
        }

        func finish() throws(DipperError) -> Data {
            guard let file else { throw Self.broken }
            self.file = nil
            try check(EGifCloseFile(file, nil))
            return output.data
        }

        /// The Netscape extension as browsers read it: the number of repetitions, 0 for endlessly.
        private func putRepetitions(_ count: Int, to file: UnsafeMutablePointer<GifFileType>) throws(DipperError) {
            try check(EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE))
            try check(EGifPutExtensionBlock(file, 11, Array("NETSCAPE2.0".utf8)))
            try check(EGifPutExtensionBlock(file, 3, [1, UInt8(count & 0xFF), UInt8(count >> 8)]))
            try check(EGifPutExtensionTrailer(file))
        }

        private func putControl(
            _ pixels: IndexedPixels, _ duration: Duration?, to file: UnsafeMutablePointer<GifFileType>
        ) throws(DipperError) {
            let hundredths = ((duration ?? .zero) / .milliseconds(10)).rounded()
            // Every frame covers the whole canvas; the previous frame must not show through its transparent pixels.
            let disposal = duration == nil ? DISPOSAL_UNSPECIFIED : DISPOSE_BACKGROUND
            var control = GraphicsControlBlock(
                DisposalMode: disposal, UserInputFlag: false, DelayTime: Int32(min(0xFFFF, max(0, hundredths))),
                TransparentColor: pixels.transparent.map(Int32.init) ?? NO_TRANSPARENT_COLOR)
            var bytes = [UInt8](repeating: 0, count: 4)
            EGifGCBToExtension(&control, &bytes)
            try check(EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, 4, bytes))
        }

        private func check(_ result: Int32) throws(DipperError) {
            guard result == GIF_OK else { throw Self.broken }
        }

        private static let broken = DipperError.unencodable.with(detail: "GIF: giflib failed")
    }

    private final class GIFOutput {
        var data = Data()
    }

    private struct IndexedPixels {
        /// Padded to a power of two.
        private(set) var palette: [GifColorType]
        private(set) var indices: [UInt8]
        /// `nil` if there are no transparent pixels.
        private(set) var transparent: UInt8?

        /// Throws `DipperError.unencodable`; `DipperError.imageTooLarge` if there is no memory.
        init(_ image: Image) throws(DipperError) {
            let colors = try Self.colors(of: image)
            let hasTransparency = colors.contains { $0 == Self.clear }
            let room = hasTransparency ? 255 : 256
            if let exact = Self.exact(colors, room: room) {
                (palette, indices) = exact
            } else {
                (palette, indices) = try Self.reduced(colors, room: room)
            }
            if hasTransparency {
                let index = UInt8(palette.count)
                transparent = index
                palette.append(GifColorType())
                for (pixel, color) in colors.enumerated() where color == Self.clear { indices[pixel] = index }
            }
            var count = 2
            while count < palette.count { count *= 2 }
            palette += Array(repeating: GifColorType(), count: count - palette.count)
        }

        private static let clear = UInt32.max

        /// 0xRRGGBB, or `clear`, for each pixel.
        private static func colors(of image: Image) throws(DipperError) -> [UInt32] {
            var colors: [UInt32] = []
            colors.reserveCapacity(image.width * image.height)
            try image.forEachRow { _, row throws(DipperError) in
                for start in stride(from: 0, to: image.width * 4, by: 4) {
                    colors.append(
                        row[start + 3] < 128
                            ? clear
                            : UInt32(row[start]) << 16 | UInt32(row[start + 1]) << 8 | UInt32(row[start + 2]))
                }
            }
            return colors
        }

        /// A palette of the picture's own colours, and the index of each pixel; `nil` if the palette has no room for
        /// them.
        private static func exact(_ colors: [UInt32], room: Int) -> ([GifColorType], [UInt8])? {
            var known = [UInt32: UInt8]()
            var palette = [GifColorType]()
            var indices = [UInt8](repeating: 0, count: colors.count)
            var last: (color: UInt32, index: UInt8) = (clear, 0)
            for (pixel, color) in colors.enumerated() where color != clear {
                if color != last.color {
                    if let index = known[color] {
                        last = (color, index)
                    } else {
                        guard palette.count < room else { return nil }
                        last = (color, UInt8(palette.count))
                        known[color] = last.index
                        palette.append(
                            GifColorType(
                                Red: UInt8(color >> 16), Green: UInt8(color >> 8 & 0xFF), Blue: UInt8(color & 0xFF)))
                    }
                }
                indices[pixel] = last.index
            }
            return (palette, indices)
        }

        /// giflib's quantizer keeps its sorting axis in a global variable.
        private static let quantizer = Mutex(())

        private static func reduced(
            _ colors: [UInt32], room: Int
        ) throws(DipperError) -> ([GifColorType], [UInt8]) {
            let drawn = colors.filter { $0 != clear }
            var red = drawn.map { UInt8($0 >> 16) }
            var green = drawn.map { UInt8($0 >> 8 & 0xFF) }
            var blue = drawn.map { UInt8($0 & 0xFF) }
            var output = [UInt8](repeating: 0, count: drawn.count)
            var palette = [GifColorType](repeating: GifColorType(), count: room)
            var count = Int32(room)
            let result = Self.quantizer.withLock { _ in
                GifQuantizeBuffer(UInt32(drawn.count), 1, &count, &red, &green, &blue, &output, &palette)
            }
            guard result == GIF_OK, (1...room).contains(Int(count)) else {
                throw .unencodable.with(detail: "GIF: no palette")
            }
            palette = means(of: drawn, output, palette.prefix(Int(count)))
            var indices = [UInt8](repeating: 0, count: colors.count)
            var next = 0
            for (pixel, color) in colors.enumerated() where color != clear {
                indices[pixel] = output[next]
                next += 1
            }
            return (palette, indices)
        }

        /// Replaces each colour by the mean of the colours mapped to it. giflib quantizes to five bits for each colour,
        /// which turns white into grey.
        private static func means(
            of colors: [UInt32], _ indices: [UInt8], _ palette: ArraySlice<GifColorType>
        ) -> [GifColorType] {
            var sums = [SIMD4<UInt64>](repeating: .zero, count: 256)
            for (color, index) in zip(colors, indices) {
                sums[Int(index)] &+= SIMD4(UInt64(color >> 16), UInt64(color >> 8 & 0xFF), UInt64(color & 0xFF), 1)
            }
            return palette.enumerated().map { index, color in
                let sum = sums[index]
                guard sum.w > 0 else { return color }
                func mean(_ sum: UInt64, _ count: UInt64) -> UInt8 { UInt8((sum + count / 2) / count) }
                return GifColorType(Red: mean(sum.x, sum.w), Green: mean(sum.y, sum.w), Blue: mean(sum.z, sum.w))
            }
        }
    }
#endif
