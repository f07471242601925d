#if WebP
    import CWebP

    /// A decoder of one picture that receives the file piece by piece. It owns libwebp's decoder.
    final class WebPIncrementalDecoder {
        /// The configuration, at a fixed address because libwebp's decoder keeps a pointer to it.
        private let config: UnsafeMutablePointer<WebPDecoderConfig>
        private let decoder: OpaquePointer

        /// Creates a decoder that writes premultiplied RGBA into memory.
        /// - Parameters:
        ///   - pixels: the memory, held by the caller for as long as the decoder.
        ///   - scaled: whether the size differs from the picture's own.
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

        /// Decodes as much as possible of the file's first `count` bytes.
        func update(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> VP8StatusCode {
            WebPIUpdate(decoder, bytes, count)
        }

        /// The number of rows decoded so far.
        var rows: Int {
            var last: Int32 = 0
            guard WebPIDecGetRGB(decoder, &last, nil, nil, nil) != nil else { return 0 }
            return Int(last)
        }
    }
#endif
