#if AVIF
    import CAVIF
    import Foundation

    /// A decoded frame, which libavif keeps until the next.
    struct AVIFPicture {
        let duration: Duration
        /// What is to be shown of the stored picture.
        let area: avifCropRect
        private let image: UnsafeMutablePointer<avifImage>

        init(_ image: UnsafeMutablePointer<avifImage>, duration: Duration) {
            self.image = image
            self.duration = duration
            area = Self.cleanAperture(of: image.pointee)
        }

        /// Of the area.
        var size: PixelSize { PixelSize(width: Int(area.width), height: Int(area.height)) }
        var hasAlpha: Bool { image.pointee.alphaPlane != nil }

        /// Turned first, then mirrored (ISO/IEC 23000-22, 7.3.6.7).
        var orientation: Orientation {
            let flags = image.pointee.transformFlags
            let turns = flags & AVIF_TRANSFORM_IROT.rawValue != 0 ? image.pointee.irot.angle & 3 : 0
            guard flags & AVIF_TRANSFORM_IMIR.rawValue != 0 else {
                return [.up, .left, .down, .right][Int(turns)]
            }
            if image.pointee.imir.mode == 0 {
                return [.downMirrored, .leftMirrored, .upMirrored, .rightMirrored][Int(turns)]
            }
            return [.upMirrored, .rightMirrored, .downMirrored, .leftMirrored][Int(turns)]
        }

        /// Brings the colours into sRGB; `nil` if they are.
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

        /// Some rows as RGBA of eight bits, not premultiplied: libavif lets colours that it leaves multiplied be larger
        /// than alpha.
        /// - Parameters:
        ///   - rows: within the area; the first is even.
        ///   - memory: for all of them, one after the other.
        func convert(_ rows: Range<Int>, into memory: UnsafeMutableRawPointer) throws(DipperError) {
            guard let view = avifImageCreateEmpty() else { throw .imageTooLarge.with(detail: "AVIF: no memory") }
            defer { avifImageDestroy(view) }
            var part = area
            part.y += UInt32(rows.lowerBound)
            part.height = UInt32(rows.count)
            var result = avifImageSetViewRect(view, image, &part)
            if result == AVIF_RESULT_OK {
                var rgb = avifRGBImage()
                avifRGBImageSetDefaults(&rgb, view)
                rgb.depth = 8
                rgb.format = AVIF_RGB_FORMAT_RGBA
                rgb.pixels = memory.assumingMemoryBound(to: UInt8.self)
                rgb.rowBytes = part.width * 4
                result = avifImageYUVToRGB(view, &rgb)
            }
            guard result == AVIF_RESULT_OK else {
                throw .undecodable.with(detail: "AVIF: " + String(cString: avifResultToString(result)))
            }
        }

        /// Chroma between two rows is made of both, so rows beside those converted have a say.
        var rowsBeside: Int { image.pointee.yuvFormat == AVIF_PIXEL_FORMAT_YUV420 ? 2 : 0 }

        /// The whole picture if the file names no part of it, or one that cannot be.
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
