#if AVIF
    import CAVIF
    import Foundation

    /// A decoded frame, valid until libavif decodes the next one.
    struct AVIFPicture {
        let duration: Duration
        /// The part of the stored picture that is displayed.
        let area: avifCropRect
        private let image: UnsafeMutablePointer<avifImage>

        init(_ image: UnsafeMutablePointer<avifImage>, duration: Duration) {
            self.image = image
            self.duration = duration
            area = Self.cleanAperture(of: image.pointee)
        }

        /// The size of the displayed area.
        var size: PixelSize { PixelSize(width: Int(area.width), height: Int(area.height)) }
        var hasAlpha: Bool { image.pointee.alphaPlane != nil }

        /// The orientation: first rotated, then mirrored (ISO/IEC 23000-22, 7.3.6.7).
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

        /// The conversion of the colours to sRGB; `nil` if none is needed.
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

        /// Converts rows to RGBA with eight bits each and straight alpha: libavif lets premultiplied colours exceed
        /// their alpha.
        /// - Parameters:
        ///   - rows: rows within the area; the first is even.
        ///   - memory: memory for all of the rows, without gaps.
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

        /// The number of rows above and below that are converted too, because libavif interpolates 4:2:0 chroma between
        /// rows.
        var rowsBeside: Int { image.pointee.yuvFormat == AVIF_PIXEL_FORMAT_YUV420 ? 2 : 0 }

        /// Returns the clean aperture, or the whole picture if the file has none or an invalid one.
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
