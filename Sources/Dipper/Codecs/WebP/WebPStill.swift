#if WebP
    import CPixels
    import CWebP
    import Foundation

    /// A decoder of one still picture.
    struct WebPStill {
        private let bytes: PinnedBytes
        private let options: DecodeOptions
        private let size: PixelSize
        /// Whether pixels may be transparent. The header of a lossless picture only gives a hint.
        private let mayHaveAlpha: Bool
        /// The memory that libwebp uses itself, in bytes: the whole of a lossless picture, or the alpha of a lossy one.
        private let held: Int
        private let orientation: Orientation
        private let color: ColorTransform?

        init(
            _ bytes: PinnedBytes, _ features: WebPFeatures, _ orientation: Orientation, _ options: DecodeOptions
        ) throws(DipperError) {
            self.bytes = bytes
            self.options = options
            self.orientation = orientation
            size = features.size
            mayHaveAlpha = features.hasAlpha || !features.isLossy
            try options.limits.check(size)
            held = size.width * size.height * (features.isLossy ? (features.hasAlpha ? 1 : 0) : 4)
            color = WebPContainer.color(in: bytes)
        }

        func decode() throws(DipperError) -> Image {
            let stored = options.storedTarget(for: size, orientation)
            // libwebp averages areas when it shrinks a picture. When it enlarges one, the result is poor.
            let isShrinking = stored.width <= size.width && stored.height <= size.height
            let decoded = isShrinking ? stored : size
            try options.limits.checkMemory(decoded)
            try options.limits.check(bytes: held + decoded.width * decoded.height * 4)
            let buffer = try PixelBuffer(decoded)
            let isComplete = try decode(into: buffer)
            let pixels = buffer.base.assumingMemoryBound(to: UInt8.self)
            let isOpaque = isComplete && (!mayHaveAlpha || pixels_are_opaque(pixels, decoded.width * decoded.height))
            if decoded == stored, orientation == .up {
                try bringIntoSRGB(buffer, isOpaque: isOpaque)
                return buffer.image(isOpaque: isOpaque, scale: options.scale)
            }
            let canvas = Canvas(base: buffer.base, size: decoded, rowStride: buffer.rowStride)
            let image = try RowWriter.image(
                of: canvas, picture: size, alpha: isOpaque ? .opaque : .premultiplied, orientation: orientation,
                color: color, options)
            withExtendedLifetime(buffer) {}
            return image
        }

        private func bringIntoSRGB(_ buffer: borrowing PixelBuffer, isOpaque: Bool) throws(DipperError) {
            guard let color else { return }
            for y in 0..<buffer.size.height {
                if y % RowWriter.rowsAtATime == 0 { try options.checkCancelled() }
                color.apply(to: buffer.row(y), pixels: buffer.size.width, isOpaque: isOpaque)
            }
        }

        /// Decodes the file into a buffer.
        /// - Returns: `false` if the file ends too early and the options allow a partial picture.
        private func decode(into buffer: borrowing PixelBuffer) throws(DipperError) -> Bool {
            if options.allowsPartial { buffer.clear() }
            let decoder = try WebPIncrementalDecoder(
                into: buffer.bytes, rowStride: buffer.rowStride, buffer.size, scaled: buffer.size != size)
            var status = VP8_STATUS_SUSPENDED
            // Small steps end a cancelled decode soon; this step is large enough that the restarts cost nothing.
            let step = max(16 << 10, bytes.count / 32)
            var count = 0
            while status == VP8_STATUS_SUSPENDED, count < bytes.count {
                try options.checkCancelled()
                count = min(bytes.count, count + step)
                status = decoder.update(bytes.base, count)
            }
            if status == VP8_STATUS_OK { return true }
            guard options.allowsPartial, decoder.rows > 0 else { throw WebPFeatures.error(status) }
            return false
        }
    }
#endif
