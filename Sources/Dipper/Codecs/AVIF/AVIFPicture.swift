#if AVIF
    import CAVIF
    import CLCMS
    import Foundation

    /// Valid until libavif decodes the next frame.
    struct AVIFPicture {
        private let area: avifCropRect
        private let image: UnsafeMutablePointer<avifImage>

        init(_ image: UnsafeMutablePointer<avifImage>) {
            self.image = image
            area = Self.cleanAperture(of: image.pointee)
        }

        var size: PixelSize { PixelSize(width: Int(area.width), height: Int(area.height)) }
        var hasAlpha: Bool { image.pointee.alphaPlane != nil }

        var orientation: Image.Orientation {
            let flags = image.pointee.transformFlags
            return Image.Orientation(
                quarterTurns: flags & AVIF_TRANSFORM_IROT.rawValue != 0 ? Int(image.pointee.irot.angle & 3) : 0,
                mirror: flags & AVIF_TRANSFORM_IMIR.rawValue != 0 ? Int(image.pointee.imir.mode) : nil)
        }

        var color: ColorTransform? {
            let image = self.image.pointee
            if image.icc.size > 0, let profile = image.icc.data {
                let isGrey = image.yuvFormat == AVIF_PIXEL_FORMAT_YUV400
                return ColorTransform.shared(
                    icc: Data(bytes: profile, count: image.icc.size), for: isGrey ? .grey : .rgb)
            }
            return CodedColor(
                primaries: Int(image.colorPrimaries), transfer: Int(image.transferCharacteristics)
            ).profile.flatMap { ColorTransform.shared(icc: $0) }
        }

        /// Converts rows within the area, of which the first is even, to straight RGBA of eight bits, without gaps:
        /// libavif lets premultiplied colours exceed their alpha.
        func convert(_ rows: Range<Int>, into memory: UnsafeMutableRawPointer) throws(DipperError) {
            guard let view = avifImageCreateEmpty() else { throw PixelMemory.noMemory }
            defer { avifImageDestroy(view) }
            var part = area
            part.y += UInt32(rows.lowerBound)
            part.height = UInt32(rows.count)
            try Self.check(avifImageSetViewRect(view, image, &part))
            var rgb = avifRGBImage()
            avifRGBImageSetDefaults(&rgb, view)
            rgb.depth = 8
            rgb.format = AVIF_RGB_FORMAT_RGBA
            rgb.pixels = memory.assumingMemoryBound(to: UInt8.self)
            rgb.rowBytes = part.width * 4
            try Self.check(avifImageYUVToRGB(view, &rgb))
        }

        static func check(_ result: avifResult) throws(DipperError) {
            switch result {
            case AVIF_RESULT_OK: return
            case AVIF_RESULT_OUT_OF_MEMORY: throw PixelMemory.noMemory
            default: throw .undecodable.with(detail: "AVIF: " + String(cString: avifResultToString(result)))
            }
        }

        /// The rows above and below that are converted too: libavif interpolates 4:2:0 chroma between rows.
        var rowsBeside: Int { image.pointee.yuvFormat == AVIF_PIXEL_FORMAT_YUV420 ? 2 : 0 }

        private static func cleanAperture(of image: avifImage) -> avifCropRect {
            var area = avifCropRect(x: 0, y: 0, width: image.width, height: image.height)
            guard image.transformFlags & AVIF_TRANSFORM_CLAP.rawValue != 0 else { return area }
            var clap = image.clap
            var diagnostics = avifDiagnostics()
            var part = avifCropRect()
            let isValid = avifCropRectConvertCleanApertureBox(
                &part, &clap, image.width, image.height, image.yuvFormat, &diagnostics)
            if isValid != 0, part.width > 0, part.height > 0 { area = part }
            return area
        }
    }

    /// Colour primaries (8.1) and transfer characteristics (8.2) as numbered by ITU-T H.273.
    private struct CodedColor {
        let primaries: Int
        let transfer: Int

        /// `nil` if the colours are close to sRGB or the transfer characteristics are not known.
        var profile: Data? {
            if isSRGB { return nil }
            var values = [Float](repeating: 0, count: 8)
            avifColorPrimariesGetValues(avifColorPrimaries(primaries), &values)
            return ColorTransform.profile((values.suffix(2) + values.prefix(6)).map { Double($0) }, curve)
        }

        /// Whether the colours count as sRGB. With its primaries, video's transfer function does too, as in viewers.
        private var isSRGB: Bool {
            [0, 1, 2].contains(primaries) && [0, 1, 2, 6, 13, 14, 15].contains(transfer)
        }

        /// The caller must free it; `nil` for an unknown transfer function.
        private var curve: OpaquePointer? {
            switch transfer {
            case 1, 6, 14, 15: ColorTransform.curve([1 / 0.45, 1 / 1.099, 0.099 / 1.099, 1 / 4.5, 0.081])
            case 4: cmsBuildGamma(nil, 2.2)
            case 5: cmsBuildGamma(nil, 2.8)
            case 8: cmsBuildGamma(nil, 1)
            case 16: Self.sampled(Self.pq)
            case 18: Self.sampled(Self.hlg)
            case 0, 2, 13: ColorTransform.sRGBCurve()
            default: nil
            }
        }

        private static func sampled(_ light: (Double) -> Double) -> OpaquePointer? {
            let table = (0..<4096).map { UInt16((min(1, max(0, light(Double($0) / 4095))) * 65535).rounded()) }
            return cmsBuildTabulatedToneCurve16(nil, UInt32(table.count), table)
        }

        /// The light for a PQ signal (SMPTE ST 2084), with white of 203 cd/m² as 1 (ITU-R BT.2408).
        private static func pq(_ signal: Double) -> Double {
            let root = pow(signal, 1 / 78.84375)
            let ratio = max(0, root - 0.8359375) / (18.8515625 - 18.6875 * root)
            return pow(ratio, 1 / 0.1593017578125) * 10_000 / 203
        }

        /// The light for an HLG signal (ARIB STD-B67), with white at three quarters of the signal as 1 (ITU-R BT.2408).
        private static func hlg(_ signal: Double) -> Double {
            func scene(_ signal: Double) -> Double {
                signal <= 0.5 ? signal * signal / 3 : (exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
            }
            return pow(scene(signal) / scene(0.75), 1.2)
        }
    }
#endif
