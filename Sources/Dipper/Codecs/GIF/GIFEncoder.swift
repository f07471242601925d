#if GIF
    import CGIF
    import Foundation
    import Synchronization

    /// An encoder for still and animated GIF 89a, by giflib: 256 colours for each frame, each pixel opaque or
    /// transparent. A picture of few colours keeps them exactly; others get the colours of giflib's median cut. Pixels
    /// with less than half of full alpha become transparent. Durations are rounded to hundredths of a second.
    ///
    /// ```swift
    /// let frames = [image, mirrored].map { AnimationFrame(image: $0, duration: .milliseconds(500)) }
    /// let file = try GIFEncoder().encode(frames, loopCount: 0, EncodeOptions())
    /// ```
    public struct GIFEncoder: ImageEncoder {
        /// The format ``ImageFormat/gif``.
        public let format = ImageFormat.gif
        public let encodesAnimations = true

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            let writer = try GIFWriter(image.size, loopCount: 1)
            try writer.add(IndexedPixels(image), duration: nil)
            return try writer.finish()
        }

        public func encode(
            _ frames: any FrameDecoder, loopCount: Int, _ options: EncodeOptions
        ) throws(DipperError) -> Data {
            var frames = try FrameRun(frames)
            let writer = try GIFWriter(frames.size, loopCount: loopCount)
            while let frame = try frames.next() {
                try writer.add(IndexedPixels(frame.image), duration: frame.duration)
            }
            return try writer.finish()
        }
    }

    private final class GIFWriter {
        private let output = GIFOutput()
        private let file: UnsafeMutablePointer<GifFileType>
        private var isOpen = true
        private let size: PixelSize

        init(_ size: PixelSize, loopCount: Int) throws(DipperError) {
            self.size = size
            guard size.width <= 0xFFFF, size.height <= 0xFFFF else {
                throw .unencodable.with(detail: "GIF: \(size) pixels")
            }
            guard (0...0x10000).contains(loopCount) else {
                throw .unencodable.with(detail: "GIF: shown \(loopCount) times")
            }
            var error: Int32 = 0
            let opened = EGifOpen(
                Unmanaged.passUnretained(output).toOpaque(),
                { file, bytes, count in
                    guard let file, let bytes, let user = file.pointee.UserData else { return 0 }
                    let output = Unmanaged<GIFOutput>.fromOpaque(user).takeUnretainedValue()
                    output.data.append(bytes, count: Int(count))
                    return count
                }, &error)
            guard let opened else { throw .unencodable.with(detail: "GIF: no memory") }
            file = opened
            EGifSetGifVersion(file, true)
            try check(EGifPutScreenDesc(file, Int32(size.width), Int32(size.height), 8, 0, nil))
            if loopCount != 1 { try putRepetitions(max(0, loopCount - 1)) }
        }

        deinit {
            if isOpen { EGifCloseFile(file, nil) }
        }

        func add(_ pixels: IndexedPixels, duration: Duration?) throws(DipperError) {
            if duration != nil || pixels.transparent != nil { try putControl(pixels, duration) }
            guard let map = GifMakeMapObject(Int32(pixels.palette.count), pixels.palette) else { throw Self.broken }
            defer { GifFreeMapObject(map) }
            try check(EGifPutImageDesc(file, 0, 0, Int32(size.width), Int32(size.height), false, map))
            for start in stride(from: 0, to: pixels.indices.count, by: size.width) {
                // giflib may change the row that it is given.
                var line = Array(pixels.indices[start..<start + size.width])
                try check(EGifPutLine(file, &line, Int32(size.width)))
            }
        }

        func finish() throws(DipperError) -> Data {
            isOpen = false
            try check(EGifCloseFile(file, nil))
            return output.data
        }

        /// The Netscape extension as browsers read it: the number of repetitions, 0 for endlessly.
        private func putRepetitions(_ count: Int) throws(DipperError) {
            try check(EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE))
            try check(EGifPutExtensionBlock(file, 11, Array("NETSCAPE2.0".utf8)))
            try check(EGifPutExtensionBlock(file, 3, [1, UInt8(count & 0xFF), UInt8(count >> 8)]))
            try check(EGifPutExtensionTrailer(file))
        }

        private func putControl(_ pixels: IndexedPixels, _ duration: Duration?) throws(DipperError) {
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
        private(set) var palette: [GifColorType] = []
        private(set) var indices: [UInt8] = []
        private(set) var transparent: UInt8?

        init(_ image: Image) throws(DipperError) {
            let colors = try Self.colors(of: image)
            if !keepColors(colors) { try reduceColors(colors) }
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

        /// Makes a palette of the picture's own colours. Returns `false` if there are too many.
        private mutating func keepColors(_ colors: [UInt32]) -> Bool {
            var known: [UInt32: UInt8] = [:]
            var last: (color: UInt32, index: UInt8)?
            indices.reserveCapacity(colors.count)
            for color in colors {
                if let last, last.color == color {
                    indices.append(last.index)
                    continue
                }
                guard let index = known[color] ?? UInt8(exactly: known.count) else { return false }
                if index == known.count {
                    known[color] = index
                    if color == Self.clear { transparent = index }
                    palette.append(
                        GifColorType(
                            Red: UInt8(color >> 16 & 0xFF), Green: UInt8(color >> 8 & 0xFF), Blue: UInt8(color & 0xFF)))
                }
                last = (color, index)
                indices.append(index)
            }
            return true
        }

        /// giflib's quantizer keeps its sorting axis in a global variable.
        private static let quantizer = Mutex(())

        private mutating func reduceColors(_ colors: [UInt32]) throws(DipperError) {
            let drawn = colors.filter { $0 != Self.clear }
            let room = drawn.count < colors.count ? 255 : 256
            var red = drawn.map { UInt8($0 >> 16) }
            var green = drawn.map { UInt8($0 >> 8 & 0xFF) }
            var blue = drawn.map { UInt8($0 & 0xFF) }
            var output = [UInt8](repeating: 0, count: drawn.count)
            var reduced = [GifColorType](repeating: GifColorType(), count: room)
            var count = Int32(room)
            let result = Self.quantizer.withLock { _ in
                GifQuantizeBuffer(UInt32(drawn.count), 1, &count, &red, &green, &blue, &output, &reduced)
            }
            guard result == GIF_OK, (1...room).contains(Int(count)) else {
                throw .unencodable.with(detail: "GIF: no palette")
            }
            palette = Self.means(of: drawn, output, reduced.prefix(Int(count)))
            let clear = UInt8(clamping: count)
            transparent = room == 255 ? clear : nil
            if transparent != nil { palette.append(GifColorType()) }
            var next = output.makeIterator()
            indices = colors.map { $0 == Self.clear ? clear : next.next() ?? clear }
        }

        /// The mean of the colours mapped to each entry: giflib quantizes to five bits, which turns white into grey.
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
