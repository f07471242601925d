#if AVIF
    import CAVIF
    import Foundation

    /// A file opened by libavif. The object owns libavif's decoder.
    final class AVIFFile {
        /// The file's bytes, which the decoder reads frame by frame.
        private let bytes: PinnedBytes
        private let decoder: UnsafeMutablePointer<avifDecoder>

        /// The AV1 codec: libaom if it is available, because versions of dav1d in use write out of bounds for broken
        /// files.
        private static let codec =
            avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_DECODE.rawValue) == nil
            ? AVIF_CODEC_CHOICE_AUTO : AVIF_CODEC_CHOICE_AOM

        /// Parses the container. No frame is decoded.
        init(_ data: Data, _ limits: DecodeLimits) throws(DipperError) {
            bytes = PinnedBytes(data)
            guard let decoder = avifDecoderCreate() else { throw .imageTooLarge.with(detail: "AVIF: no memory") }
            self.decoder = decoder
            decoder.pointee.maxThreads = 1
            decoder.pointee.codecChoice = Self.codec
            decoder.pointee.ignoreExif = 1
            decoder.pointee.ignoreXMP = 1
            // Files from older encoders lack parts that the standard requires but decoding does not need.
            decoder.pointee.strictFlags = 0
            decoder.pointee.imageSizeLimit = UInt32(
                clamping: max(1, min(limits.pixels, Int(AVIF_DEFAULT_IMAGE_DIMENSION_LIMIT) << 13)))
            // Only the number of pixels is limited, not the length of a side.
            decoder.pointee.imageDimensionLimit = 0
            // This only bounds libavif's tables. The caller checks the number of frames, because it may want only the
            // first.
            decoder.pointee.imageCountLimit = UInt32(clamping: max(limits.frames, DecodeLimits().frames))
            try check(avifDecoderSetIOMemory(decoder, bytes.base, bytes.count))
            try check(avifDecoderParse(decoder))
        }

        deinit {
            avifDecoderDestroy(decoder)
        }

        /// The number of frames that the file declares, whether or not their bytes have arrived.
        var frameCount: Int { Int(decoder.pointee.imageCount) }

        /// The frame as the container describes it, without pixels.
        var announced: AVIFPicture? { decoder.pointee.image.map { AVIFPicture($0, duration: .zero) } }

        /// Returns the most bytes that the planes of a frame take.
        /// - Throws: `DipperError.undecodable` for an empty picture, `DipperError.imageTooLarge` above the limits.
        func planeBytes(_ limits: DecodeLimits) throws(DipperError) -> Int {
            guard let image = decoder.pointee.image?.pointee else { return 0 }
            let size = PixelSize(width: Int(image.width), height: Int(image.height))
            try limits.check(size)
            try limits.checkMemory(size)
            let planes = (image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400 ? 1 : 3) + Int(decoder.pointee.alphaPresent)
            return size.width * size.height * planes * (image.depth > 8 ? 2 : 1)
        }

        /// Decodes the next frame.
        /// - Returns: the frame, valid until the next call; `nil` after the last.
        func next() throws(DipperError) -> AVIFPicture? {
            let result = avifDecoderNextImage(decoder)
            if result == AVIF_RESULT_NO_IMAGES_REMAINING { return nil }
            try check(result)
            guard let image = decoder.pointee.image else { return nil }
            return AVIFPicture(image, duration: duration)
        }

        /// Restarts at the first frame.
        func rewind() throws(DipperError) {
            try check(avifDecoderReset(decoder))
        }

        private var duration: Duration {
            let timing = decoder.pointee.imageTiming
            guard timing.timescale > 0 else { return .zero }
            let seconds = Double(timing.durationInTimescales) / Double(timing.timescale)
            return .nanoseconds(Int64((min(seconds, 1e9) * 1e9).rounded()))
        }

        private func check(_ result: avifResult) throws(DipperError) {
            switch result {
            case AVIF_RESULT_OK: return
            case AVIF_RESULT_OUT_OF_MEMORY: throw .imageTooLarge.with(detail: "AVIF: no memory")
            default: throw .undecodable.with(detail: "AVIF: " + String(cString: avifResultToString(result)))
            }
        }
    }
#endif
