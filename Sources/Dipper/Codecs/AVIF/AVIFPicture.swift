#if AVIF
    import CAVIF
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
#endif
