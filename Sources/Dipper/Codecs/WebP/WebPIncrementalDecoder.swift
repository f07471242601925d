#if WebP
    import CWebP

    /// Owns libwebp's decoder of one picture, which takes the file piece by piece.
    final class WebPIncrementalDecoder {
        /// At one address for as long as the decoder, which looks into it.
        private let config: UnsafeMutablePointer<WebPDecoderConfig>
        private let decoder: OpaquePointer

        /// - Parameters:
        ///   - pixels: held by the caller for as long as the decoder; filled with premultiplied RGBA.
        ///   - scaled: whether the size is not the picture's own.
        init(
            into pixels: UnsafeMutableRawBufferPointer, rowStride: Int, _ size: PixelSize, scaled: Bool
        ) throws(DipperError) {
            let config = UnsafeMutablePointer<WebPDecoderConfig>.allocate(capacity: 1)
            config.initialize(to: WebPDecoderConfig())
            guard WebPInitDecoderConfig(config) != 0 else {
                config.deallocate()
                throw .undecodable.with(detail: "WebP: another version of libwebp")
            }
            config.pointee.output.colorspace = MODE_rgbA
            config.pointee.output.is_external_memory = 1
            config.pointee.output.u.RGBA = WebPRGBABuffer(
                rgba: pixels.baseAddress?.assumingMemoryBound(to: UInt8.self), stride: Int32(rowStride),
                size: pixels.count)
            if scaled {
                config.pointee.options.use_scaling = 1
                config.pointee.options.scaled_width = Int32(size.width)
                config.pointee.options.scaled_height = Int32(size.height)
            }
            guard let decoder = WebPIDecode(nil, 0, config) else {
                config.deallocate()
                throw .imageTooLarge.with(detail: "WebP: no memory")
            }
            self.config = config
            self.decoder = decoder
        }

        deinit {
            WebPIDelete(decoder)
            WebPFreeDecBuffer(&config.pointee.output)
            config.deallocate()
        }

        /// Decodes what can be decoded of the first so many bytes of the file.
        func update(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> VP8StatusCode {
            WebPIUpdate(decoder, bytes, count)
        }

        /// Rows that are decoded.
        var rows: Int {
            var last: Int32 = 0
            guard WebPIDecGetRGB(decoder, &last, nil, nil, nil) != nil else { return 0 }
            return Int(last)
        }
    }
#endif
