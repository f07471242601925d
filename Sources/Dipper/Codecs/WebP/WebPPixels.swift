#if WebP
    import CPixels
    import CWebP
    import Foundation

    /// A picture in the form that libwebp encodes. It owns libwebp's memory for the pixels.
    final class WebPPixels {
        private let picture: UnsafeMutablePointer<WebPPicture>

        init(_ image: Image) throws(DipperError) {
            let largest = Int(WEBP_MAX_DIMENSION)
            guard image.width <= largest, image.height <= largest else {
                throw .unencodable.with(detail: "WebP: \(image.size) pixels")
            }
            picture = .allocate(capacity: 1)
            picture.initialize(to: WebPPicture())
            guard WebPPictureInit(picture) != 0 else {
                throw .unencodable.with(detail: "WebP: another version of libwebp")
            }
            picture.pointee.use_argb = 1
            picture.pointee.width = Int32(image.width)
            picture.pointee.height = Int32(image.height)
            guard WebPPictureAlloc(picture) != 0, let pixels = picture.pointee.argb else {
                throw .unencodable.with(detail: "WebP: no memory")
            }
            let stride = Int(picture.pointee.argb_stride)
            let scratch = try PixelScratch(byteCount: image.width * 4)
            defer { withExtendedLifetime(scratch) {} }
            image.withPixels { bytes in
                guard let base = bytes.baseAddress else { return }
                for y in 0..<image.height {
                    let straight = scratch.base.assumingMemoryBound(to: UInt8.self)
                    let source = (base + y * image.rowStride).assumingMemoryBound(to: UInt8.self)
                    pixels_unpremultiply(straight, source, image.width)
                    let row = pixels + y * stride
                    for x in 0..<image.width {
                        let color = straight + x * 4
                        row[x] =
                            UInt32(color[3]) << 24 | UInt32(color[0]) << 16 | UInt32(color[1]) << 8 | UInt32(color[2])
                    }
                }
            }
        }

        deinit {
            WebPPictureFree(picture)
            picture.deallocate()
        }

        /// Returns the bytes of a file with only this picture.
        func encode(_ settings: inout WebPConfig) throws(DipperError) -> Data {
            var writer = WebPMemoryWriter()
            WebPMemoryWriterInit(&writer)
            defer { WebPMemoryWriterClear(&writer) }
            let isEncoded = withUnsafeMutablePointer(to: &writer) { writer in
                picture.pointee.writer = WebPMemoryWrite
                picture.pointee.custom_ptr = UnsafeMutableRawPointer(writer)
                defer { picture.pointee.custom_ptr = nil }
                return WebPEncode(&settings, picture) != 0
            }
            guard isEncoded, let bytes = writer.mem else {
                throw .unencodable.with(detail: "WebP: error \(picture.pointee.error_code.rawValue)")
            }
            return Data(bytes: bytes, count: writer.size)
        }

        /// Passes the picture to an animation encoder as the next frame.
        func add(to encoder: OpaquePointer, at milliseconds: Int32, _ settings: inout WebPConfig) -> Bool {
            WebPAnimEncoderAdd(encoder, picture, milliseconds, &settings) != 0
        }
    }
#endif
