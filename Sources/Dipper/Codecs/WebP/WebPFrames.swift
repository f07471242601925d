#if WebP
    import CWebP

    /// A decoder of an animated WebP's frames: each is the canvas as it looks when the frame is displayed. It owns
    /// libwebp's decoder.
    final class WebPFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let bytes: PinnedBytes
        private let decoder: OpaquePointer
        private let size: PixelSize
        private let options: DecodeOptions
        private let orientation: Orientation
        private let color: ColorTransform?
        /// The time at which the last frame ended, in milliseconds.
        private var time = 0
        private var shown = 0
        private var isAtEnd = false

        init(
            _ bytes: PinnedBytes, _ features: WebPFeatures, _ orientation: Orientation, _ options: DecodeOptions
        ) throws(DipperError) {
            self.bytes = bytes
            self.options = options
            self.orientation = orientation
            size = features.size
            let chunks = WebPChunks(bytes)
            try options.limits.check(size, frames: options.firstFrameOnly ? 1 : chunks.completeFrames)
            // libwebp allocates two canvases, and the picture is a third.
            try options.limits.checkMemory(PixelSize(width: size.width, height: 3 * size.height))
            let count = Self.cut(bytes, to: chunks)
            var settings = WebPAnimDecoderOptions()
            guard WebPAnimDecoderOptionsInit(&settings) != 0 else {
                throw .undecodable.with(detail: "WebP: another version of libwebp")
            }
            settings.color_mode = MODE_rgbA
            var webP = WebPData(bytes: bytes.base, size: count)
            guard let decoder = WebPAnimDecoderNew(&webP, &settings) else {
                throw .undecodable.with(detail: "WebP: the animation is broken")
            }
            var info = WebPAnimInfo()
            WebPAnimDecoderGetInfo(decoder, &info)
            // The pixels are read with this size from libwebp's canvas.
            guard info.canvas_width == size.width, info.canvas_height == size.height else {
                WebPAnimDecoderDelete(decoder)
                throw .undecodable.with(detail: "WebP: the canvas has another size")
            }
            self.decoder = decoder
            frameCount = options.firstFrameOnly ? min(1, Int(info.frame_count)) : Int(info.frame_count)
            loopCount = Int(info.loop_count)
            color = WebPContainer.color(in: bytes)
        }

        deinit {
            WebPAnimDecoderDelete(decoder)
        }

        /// Changes the header of a file that ends too early so that the file ends with its last complete frame: libwebp
        /// reads only complete files.
        /// - Returns: the number of bytes of the file to read.
        private static func cut(_ bytes: PinnedBytes, to chunks: WebPChunks) -> Int {
            guard chunks.announced > bytes.count, chunks.completeFrames > 0 else { return bytes.count }
            let length = UInt32(clamping: chunks.endOfFrames - 8)
            bytes.bytes.storeBytes(of: length.littleEndian, toByteOffset: 4, as: UInt32.self)
            return chunks.endOfFrames
        }

        func rewind() throws(DipperError) {
            WebPAnimDecoderReset(decoder)
            (time, shown, isAtEnd) = (0, 0, false)
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd, WebPAnimDecoderHasMoreFrames(decoder) != 0 else { return nil }
            try options.checkCancelled()
            isAtEnd = true
            var pixels: UnsafeMutablePointer<UInt8>?
            var end: Int32 = 0
            guard WebPAnimDecoderGetNext(decoder, &pixels, &end) != 0, let pixels else {
                guard shown > 0 else { throw .undecodable.with(detail: "WebP: the first frame is broken") }
                return nil
            }
            let image = try RowWriter.image(
                of: Canvas(base: pixels, size: size, rowStride: size.width * 4), picture: size,
                alpha: .premultiplied, orientation: orientation, color: color, options)
            let duration = Duration.milliseconds(max(0, Int(end) - time))
            time = Int(end)
            shown += 1
            isAtEnd = false
            return AnimationFrame(image: image, duration: duration)
        }
    }

    /// The positions of a WebP file's frames, found without decoding (RFC 9649, 2.3 and 2.7).
    private struct WebPChunks {
        /// The length of the file that its header states, in bytes.
        private(set) var announced = 0
        /// The number of frames that are completely there.
        private(set) var completeFrames = 0
        /// The number of bytes up to the end of the last complete frame.
        private(set) var endOfFrames = 0

        init(_ pinned: PinnedBytes) {
            let bytes = UnsafeRawBufferPointer(start: pinned.base, count: pinned.count)
            guard bytes.count >= 12 else { return }
            func number(_ offset: Int) -> Int {
                Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            }
            announced = number(4) + 8
            var offset = 12
            while offset + 8 <= bytes.count {
                let length = number(offset + 4)
                let end = offset + 8 + length + length % 2
                guard end <= bytes.count else { return }
                if number(offset) == Self.frame {
                    completeFrames += 1
                    endOfFrames = end
                }
                offset = end
            }
        }

        /// The chunk name `ANMF`.
        private static let frame = 0x464D_4E41
    }
#endif
