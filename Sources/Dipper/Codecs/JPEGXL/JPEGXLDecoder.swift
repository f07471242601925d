#if JXL
    import CJXL
    import CPixels
    import Foundation

    /// A decoder for still and animated JPEG XL, by libjxl.
    ///
    /// libjxl applies the orientation. Colours that are coded in XYB are converted to sRGB by libjxl, others from the
    /// file's profile. The frames of a hostile file may be larger than the picture, so only a helper process bounds the
    /// memory that libjxl takes for them: pictures are decoded apart unless the program says otherwise.
    public struct JPEGXLDecoder: ImageDecoder {
        /// The format ``ImageFormat/jpegXL``.
        public let format = ImageFormat.jpegXL
        public let isolation = Isolation.preferred

        /// Creates a decoder.
        public init() {}

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try JPEGXLFrames.memory(of: data, options).all
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(FileFrames(JPEGXLFrames(data, options), options), of: data)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            try FileFrames(JPEGXLFrames(data, options), options).ifAnimated
        }
    }

    /// Each frame is the whole picture, as libjxl composes it. Owns libjxl's decoder.
    private final class JPEGXLFrames: FrameReader {
        let held: Int
        private(set) var frameCount = 1
        private(set) var loopCount = 1
        private let options: DecodeOptions
        private let size: PixelSize
        private let bytes: PinnedBytes
        private let decoder: OpaquePointer
        /// The bytes that libjxl has been given.
        private var given = 0
        private var info = JxlBasicInfo()
        private var color: ColorTransform?

        static func memory(
            of data: Data, _ options: DecodeOptions
        ) throws(DipperError) -> (held: Int, all: Int, size: PixelSize) {
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            try options.check(size, frames: 1)
            let target = try options.storedTarget(for: size, .up)
            // As libjxl 0.7 was seen to take: floating-point numbers of all channels, and of the frames before.
            let held = try size.byteCount(info.hasAlpha || info.isAnimation ? 48 : 36) + data.count
            let frame = try RowWriter.byteCount(from: size, to: target)
            let whole = try target == size ? 0 : size.byteCount()
            return (
                held + whole, held + whole + options.resultBytes(frame, frames: info.frameCount, beside: held), size
            )
        }

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let memory = try Self.memory(of: data, options)
            try options.limits.check(bytes: memory.all)
            (held, size) = (memory.held, memory.size)
            self.options = options
            bytes = PinnedBytes(data)
            guard let decoder = JxlDecoderCreate(nil) else { throw PixelMemory.noMemory }
            self.decoder = decoder
            JxlDecoderSetUnpremultiplyAlpha(decoder, 1)
            try countFrames()
            try options.check(size, frames: frameCount)
            try restart()
        }

        deinit {
            JxlDecoderDestroy(decoder)
        }

        func restart() throws(DipperError) {
            subscribe(JXL_DEC_BASIC_INFO, JXL_DEC_COLOR_ENCODING, JXL_DEC_FRAME, JXL_DEC_FULL_IMAGE)
        }

        private func subscribe(_ events: JxlDecoderStatus...) {
            JxlDecoderRewind(decoder)
            given = 0
            JxlDecoderSubscribeEvents(decoder, events.reduce(0) { $0 | Int32(bitPattern: $1.rawValue) })
        }

        /// libjxl skips the pixels of frames that are not asked for.
        private func countFrames() throws(DipperError) {
            subscribe(JXL_DEC_BASIC_INFO, JXL_DEC_FRAME)
            var count = 0
            while count <= options.limits.frames {
                let event = try next()
                if event == JXL_DEC_FRAME { count += 1 }
                if event == JXL_DEC_BASIC_INFO {
                    try readInfo()
                    // Of a picture whose size has come, the rest may be missing.
                    guard info.have_animation != 0, !options.firstFrameOnly else { return }
                    loopCount = Int(info.animation.num_loops)
                } else if event != JXL_DEC_FRAME {
                    break
                }
            }
            frameCount = max(1, count)
        }

        /// Returns libjxl's next event, `JXL_DEC_NEED_MORE_INPUT` only at the end of the bytes.
        private func next() throws(DipperError) -> JxlDecoderStatus {
            // Small steps end a cancelled decode soon; this step is large enough that the restarts cost nothing.
            let step = max(64 << 10, bytes.count / 32)
            while true {
                let event = JxlDecoderProcessInput(decoder)
                guard event == JXL_DEC_NEED_MORE_INPUT, given < bytes.count else { return event }
                try options.checkCancelled()
                let start = given - JxlDecoderReleaseInput(decoder)
                given = min(bytes.count, given + step)
                JxlDecoderSetInput(decoder, bytes.base + start, given - start)
            }
        }

        func read() throws(DipperError) -> AnimationFrame? {
            let buffer = try PixelBuffer(size)
            if options.allowsPartial { buffer.clear() }
            var duration = Duration.zero
            while true {
                switch try next() {
                case JXL_DEC_BASIC_INFO: try readInfo()
                case JXL_DEC_COLOR_ENCODING: try readColor()
                case JXL_DEC_FRAME: duration = readDuration()
                case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
                    var layout = JxlPixelFormat(
                        num_channels: 4, data_type: JXL_TYPE_UINT8, endianness: JXL_NATIVE_ENDIAN, align: 0)
                    guard
                        JxlDecoderSetImageOutBuffer(decoder, &layout, buffer.base, buffer.bytes.count)
                            == JXL_DEC_SUCCESS
                    else { throw Self.broken }
                case JXL_DEC_FULL_IMAGE:
                    return AnimationFrame(
                        image: try image(buffer, mayHaveAlpha: info.alpha_bits > 0), duration: duration)
                case JXL_DEC_NEED_MORE_INPUT:
                    guard options.allowsPartial, JxlDecoderFlushImage(decoder) == JXL_DEC_SUCCESS else {
                        throw RowWriter.truncated
                    }
                    return AnimationFrame(image: try image(buffer, mayHaveAlpha: true), duration: duration)
                case JXL_DEC_SUCCESS: return nil
                default: throw Self.broken
                }
            }
        }

        private static let broken = DipperError.undecodable.with(detail: "JPEG XL: the file is broken")

        private func image(_ buffer: consuming PixelBuffer, mayHaveAlpha: Bool) throws(DipperError) -> Image {
            guard try options.storedTarget(for: size, .up) == size else {
                let image = try RowWriter.image(
                    of: buffer.base, size, picture: size, alpha: mayHaveAlpha ? .straight : .opaque, color: color,
                    options)
                withExtendedLifetime(buffer) {}
                return image
            }
            let pixels = buffer.base.assumingMemoryBound(to: UInt8.self)
            let isOpaque = !mayHaveAlpha || pixels_premultiply(pixels, size.width * size.height)
            try color?.apply(to: buffer, isOpaque: isOpaque, options)
            return buffer.image(isOpaque: isOpaque, scale: options.scale)
        }

        private func readInfo() throws(DipperError) {
            // The buffer has the size that the header states.
            guard JxlDecoderGetBasicInfo(decoder, &info) == JXL_DEC_SUCCESS,
                (Int(info.xsize), Int(info.ysize)) == (size.width, size.height)
            else { throw Self.broken }
        }

        private func readDuration() -> Duration {
            var header = JxlFrameHeader()
            let (ticks, seconds) = (info.animation.tps_numerator, info.animation.tps_denominator)
            guard info.have_animation != 0, JxlDecoderGetFrameHeader(decoder, &header) == JXL_DEC_SUCCESS, ticks > 0
            else { return .zero }
            return .nanoseconds(
                Int64((min(1e9, Double(header.duration) * Double(seconds) / Double(ticks)) * 1e9).rounded()))
        }

        private func readColor() throws(DipperError) {
            var encoding = JxlColorEncoding()
            func isCoded(_ target: JxlColorProfileTarget) -> Bool {
                JxlDecoderGetColorAsEncodedProfile(decoder, nil, target, &encoding) == JXL_DEC_SUCCESS
            }
            let bright = [JXL_TRANSFER_FUNCTION_PQ, JXL_TRANSFER_FUNCTION_HLG]
            let isBright = isCoded(JXL_COLOR_PROFILE_TARGET_ORIGINAL) && bright.contains(encoding.transfer_function)
            let isGrey = info.num_color_channels == 1
            if info.uses_original_profile == 0, !isBright {
                encoding.color_space = isGrey ? JXL_COLOR_SPACE_GRAY : JXL_COLOR_SPACE_RGB
                encoding.white_point = JXL_WHITE_POINT_D65
                encoding.primaries = JXL_PRIMARIES_SRGB
                encoding.transfer_function = JXL_TRANSFER_FUNCTION_SRGB
                encoding.rendering_intent = JXL_RENDERING_INTENT_RELATIVE
                JxlDecoderSetPreferredColorProfile(decoder, &encoding)
            }
            let pixels = JXL_COLOR_PROFILE_TARGET_DATA
            if isBright, isCoded(pixels) {
                // The numbers are those of ITU-T H.273, but that of P3 with the white of screens.
                let isP3 = encoding.primaries == JXL_PRIMARIES_P3 && encoding.white_point == JXL_WHITE_POINT_D65
                let coded = CodedColor(
                    primaries: isP3 ? 12 : Int(encoding.primaries.rawValue),
                    transfer: Int(encoding.transfer_function.rawValue))
                color = coded.profile.flatMap { ColorTransform.shared(icc: $0) }
                return
            }
            var length = 0
            guard JxlDecoderGetICCProfileSize(decoder, nil, pixels, &length) == JXL_DEC_SUCCESS, length > 0,
                length <= ColorTransform.largestProfile
            else { return }
            var profile = Data(count: length)
            let isRead = profile.withUnsafeMutableBytes { bytes in
                JxlDecoderGetColorAsICCProfile(
                    decoder, nil, pixels, bytes.bindMemory(to: UInt8.self).baseAddress, length)
            }
            guard isRead == JXL_DEC_SUCCESS else { return }
            if profile.dropFirst(16).starts(with: "CMYK".utf8) {
                throw .undecodable.with(detail: "JPEG XL: inks are not supported")
            }
            color = ColorTransform.shared(icc: profile, for: isGrey ? .grey : .rgb)
        }
    }
#endif
