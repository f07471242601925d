#if AVIF
    import CAVIF
    import Foundation

    /// An encoder for AVIF, by libavif and libaom: lossy with a quality, or lossless; of an animation the first frame.
    ///
    /// ```swift
    /// let file = try AVIFEncoder().encode(image, EncodeOptions(quality: 0.6))
    /// ```
    public struct AVIFEncoder: ImageEncoder {
        /// The format ``ImageFormat/avif``.
        public let format = ImageFormat.avif

        /// Creates an encoder.
        public init() {}

        public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
            let (quality, isLossless) = (options.validQuality, options.isLossless)
            guard max(image.width, image.height) <= 65_536 else { throw Self.failure("\(image.size) pixels") }
            // From 0.9 on, colours have all pixels, as in JPEG.
            let chroma = isLossless || quality >= 0.9 ? AVIF_PIXEL_FORMAT_YUV444 : AVIF_PIXEL_FORMAT_YUV420
            guard let picture = avifImageCreate(UInt32(image.width), UInt32(image.height), 8, chroma) else {
                throw PixelMemory.noMemory
            }
            defer { avifImageDestroy(picture) }
            // sRGB (ITU-T H.273): without a matrix nothing is rounded.
            picture.pointee.colorPrimaries = 1
            picture.pointee.transferCharacteristics = 13
            picture.pointee.matrixCoefficients = isLossless ? 0 : 6
            picture.pointee.yuvRange = AVIF_RANGE_FULL
            try convert(image, into: picture)
            guard let encoder = avifEncoderCreate() else { throw PixelMemory.noMemory }
            defer { avifEncoderDestroy(encoder) }
            // From 0 without loss to 63. Alpha is written without loss.
            let quantizer = isLossless ? 0 : Int32(((1 - quality) * 63).rounded())
            (encoder.pointee.minQuantizer, encoder.pointee.maxQuantizer) = (quantizer, quantizer)
            // The default of newer versions is another one.
            (encoder.pointee.minQuantizerAlpha, encoder.pointee.maxQuantizerAlpha) = (0, 0)
            // Of 0 to 10. For a photograph, 6 takes three times as long, for a file that is 5 % smaller.
            encoder.pointee.speed = 8
            encoder.pointee.maxThreads = Int32(min(DecodeOptions.cores, 4))
            var file = avifRWData()
            defer { avifRWDataFree(&file) }
            try Self.check(avifEncoderWrite(encoder, picture, &file))
            guard let bytes = file.data else { throw Self.failure("nothing is written") }
            return Data(bytes: bytes, count: file.size)
        }

        private func convert(_ image: Image, into picture: UnsafeMutablePointer<avifImage>) throws(DipperError) {
            let length = image.width * 4
            let straight = try PixelStorage(byteCount: length * image.height)
            try image.forEachRow { y, row throws(DipperError) in
                (straight.base + y * length).copyMemory(from: row, byteCount: length)
            }
            var rgb = avifRGBImage()
            avifRGBImageSetDefaults(&rgb, picture)
            rgb.depth = 8
            rgb.format = AVIF_RGB_FORMAT_RGBA
            rgb.ignoreAlpha = image.isOpaque ? 1 : 0
            rgb.pixels = straight.base.assumingMemoryBound(to: UInt8.self)
            rgb.rowBytes = UInt32(length)
            try Self.check(avifImageRGBToYUV(picture, &rgb))
            withExtendedLifetime(straight) {}
        }

        private static func failure(_ detail: String) -> DipperError { .unencodable.with(detail: "AVIF: " + detail) }

        private static func check(_ result: avifResult) throws(DipperError) {
            if result == AVIF_RESULT_OUT_OF_MEMORY { throw PixelMemory.noMemory }
            if result != AVIF_RESULT_OK { throw failure(String(cString: avifResultToString(result))) }
        }
    }
#endif
