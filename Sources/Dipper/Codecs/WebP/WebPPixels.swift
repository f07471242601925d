#if WebP
    import CWebP
    import Foundation

    /// A picture in the form that libwebp encodes; owns libwebp's memory for it.
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
            image.withPixels { bytes in
                for y in 0..<image.height {
                    let row = pixels + y * stride
                    for x in 0..<image.width {
                        let offset = y * image.rowStride + x * 4
                        let pixel = bytes.loadUnaligned(fromByteOffset: offset, as: SIMD4<UInt8>.self).straight
                        row[x] =
                            UInt32(pixel.w) << 24 | UInt32(pixel.x) << 16 | UInt32(pixel.y) << 8 | UInt32(pixel.z)
                    }
                }
            }
        }

        deinit {
            WebPPictureFree(picture)
            picture.deallocate()
        }

        /// The bytes of a file with this picture alone.
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

        /// Hands the picture over as the next frame.
        func add(to encoder: OpaquePointer, at milliseconds: Int32, _ settings: inout WebPConfig) -> Bool {
            WebPAnimEncoderAdd(encoder, picture, milliseconds, &settings) != 0
        }
    }
#endif
