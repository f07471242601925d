#if GIF
    import CGIF
    import CPixels
    import Synchronization

    /// A picture with a palette of at most 256 colours.
    struct IndexedPixels {
        /// The colours, padded to a power of two.
        private(set) var palette: [GifColorType]
        /// The palette index of each pixel.
        private(set) var indices: [UInt8]
        /// The index of transparent pixels; `nil` if there are none.
        private(set) var transparent: UInt8?

        /// Converts a picture.
        /// - Throws: `DipperError.unencodable`; `DipperError.imageTooLarge` if there is no memory.
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

        /// Returns 0xRRGGBB, or `clear`, for each pixel.
        private static func colors(of image: Image) throws(DipperError) -> [UInt32] {
            let scratch = try PixelScratch(byteCount: image.width * 4)
            return [UInt32](unsafeUninitializedCapacity: image.width * image.height) { colors, count in
                count = image.width * image.height
                defer { withExtendedLifetime(scratch) {} }
                image.withPixels { bytes in
                    guard let base = bytes.baseAddress else { return }
                    for y in 0..<image.height {
                        let straight = scratch.base.assumingMemoryBound(to: UInt8.self)
                        let source = (base + y * image.rowStride).assumingMemoryBound(to: UInt8.self)
                        pixels_unpremultiply(straight, source, image.width)
                        for x in 0..<image.width {
                            let color = straight + x * 4
                            colors[y * image.width + x] =
                                color[3] < 128
                                ? clear : UInt32(color[0]) << 16 | UInt32(color[1]) << 8 | UInt32(color[2])
                        }
                    }
                }
            }
        }

        /// Returns a palette of the picture's own colours, and the index of each pixel.
        /// - Returns: `nil` if the palette has no room for all colours.
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

        /// A lock around giflib's quantizer, which keeps its sorting axis in a global variable.
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

        /// Returns the palette with each colour replaced by the mean of the colours mapped to it. giflib quantizes to
        /// five bits for each colour, which turns white into grey.
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
