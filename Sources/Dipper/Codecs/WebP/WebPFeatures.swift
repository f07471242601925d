#if WebP
    import CWebP

    /// The properties of a WebP file that libwebp reads before decoding.
    struct WebPFeatures {
        /// The size of the stored picture, or of an animation's canvas.
        let size: PixelSize
        let hasAlpha: Bool
        let isMoving: Bool
        /// Whether the picture is lossy. libwebp decodes it row by row, but holds a lossless picture whole.
        let isLossy: Bool

        /// Reads the properties.
        /// - Throws: `DipperError.undecodable`, also if the bytes end before the size.
        init(_ bytes: PinnedBytes) throws(DipperError) {
            var found = WebPBitstreamFeatures()
            let status = WebPGetFeatures(bytes.base, bytes.count, &found)
            guard status == VP8_STATUS_OK else { throw Self.error(status) }
            size = PixelSize(width: Int(found.width), height: Int(found.height))
            hasAlpha = found.has_alpha != 0
            isMoving = found.has_animation != 0
            isLossy = found.format == 1
        }

        static func error(_ status: VP8StatusCode) -> DipperError {
            switch status {
            case VP8_STATUS_OUT_OF_MEMORY: .imageTooLarge.with(detail: "WebP: no memory")
            case VP8_STATUS_SUSPENDED, VP8_STATUS_NOT_ENOUGH_DATA:
                .undecodable.with(detail: "WebP: the file ends too early")
            default: .undecodable.with(detail: "WebP: status \(status.rawValue)")
            }
        }
    }
#endif
