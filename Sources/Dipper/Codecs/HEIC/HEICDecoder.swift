#if HEIC
    import CHEIF
    import CPixels
    import Foundation

    /// A decoder for still HEIC, also in tiles, with 8 to 12 bits, by libheif and libde265.
    ///
    /// libheif applies the file's rotation, mirroring and clean aperture. Colours are converted to sRGB from the file's
    /// profile, or from its coded primaries and transfer function (nclx). libheif 1.15 does not decode sequences: of a file
    /// that has one, the still picture is decoded. Pictures are decoded apart unless the program says otherwise.
    public struct HEICDecoder: ImageDecoder {
        /// The format ``ImageFormat/heic``.
        public let format = ImageFormat.heic
        public let isolation = Isolation.preferred

        /// Creates a decoder.
        public init() {}

        public func prepareForIsolation() { HEVCPlugin.register() }

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try HEICFile(data, options).memory
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            let file = try HEICFile(data, options)
            try options.limits.check(bytes: file.memory)
            return try file.decode()
        }
    }

    private struct HEICFile {
        /// The memory of a decode, in bytes.
        let memory: Int
        private let data: Data
        private let options: DecodeOptions
        /// The number of pixels of the largest item, in whole blocks.
        private let largest: Int
        private let longestSide: Int

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            try options.check(size, frames: 1)
            let (items, compositions) = try data.withBytes { bytes throws(DipperError) -> ([PixelSize], [PixelSize]) in
                let file = ByteReader(bytes)
                let meta = try Self.meta(of: file)
                return (Array(try HEIFItem(meta).sizes().values), try Self.compositions(meta, in: file))
            }
            var largest = 0
            for item in items {
                // HEVC codes whole blocks.
                let blocks = PixelSize(width: (item.width + 63) & ~63, height: (item.height + 63) & ~63)
                largest = max(largest, try blocks.byteCount(1))
            }
            for size in compositions {
                guard try size.byteCount(1) <= largest else {
                    throw .imageTooLarge.with(detail: "HEIC: a picture of \(size) pixels")
                }
            }
            // As libheif 1.15 was seen to take: planes of the picture, what libde265 knows of its blocks, and copies.
            let isDeep = info.bitDepth.map { $0 > 8 } ?? true
            let held = PixelSize(width: largest, height: isDeep ? 24 : 16)
            let result = try RowWriter.byteCount(from: size, to: options.storedTarget(for: size, .up))
            memory = try held.byteCount(1) + data.count + result
            longestSide = items.map { max($0.width, $0.height) }.max() ?? 0
            (self.data, self.options, self.largest) = (data, options, largest)
        }

        /// The sizes of grids and overlays (ISO/IEC 23008-12, section 6.6.2), which they have beside those that the file
        /// announces.
        private static func compositions(_ meta: ByteReader, in file: ByteReader) throws(DipperError) -> [PixelSize] {
            var items = try HEIFItems(meta, in: file)
            var sizes: [PixelSize] = []
            try items.forEach(of: ["grid", "iovl"]) { _, kind, data throws(DipperError) in
                let width = try data.u8(at: 1) & 1 == 0 ? 2 : 4
                // After the colour of what an overlay does not cover.
                let place = kind == "grid" ? 4 : 10
                sizes.append(
                    PixelSize(
                        width: try data.number(at: place, width), height: try data.number(at: place + width, width)))
            }
            return sizes
        }

        /// libheif would read the last one of several, and not the one whose sizes are checked.
        private static func meta(of file: ByteReader) throws(DipperError) -> ByteReader {
            var (boxes, found) = (BoxReader(file), ByteReader?.none)
            while let box = try? boxes.next() {
                guard box.type == "meta" else { continue }
                if found != nil { throw broken }
                found = box.content
            }
            guard let found else { throw noPicture }
            return found
        }

        func decode() throws(DipperError) -> Image {
            HEVCPlugin.register()
            let session = HEVCSession(largest: largest, options)
            let result = HEVCSession.$current.withValue(session) {
                FilledMemory.use { Result { () throws(DipperError) in try decodePrimary() } }
            }
            do throws(DipperError) {
                return try result.get()
            } catch {
                throw session.failure ?? error
            }
        }

        private func decodePrimary() throws(DipperError) -> Image {
            let bytes = PinnedBytes(data)
            defer { withExtendedLifetime(bytes) {} }
            guard let context = heif_context_alloc() else { throw PixelMemory.noMemory }
            defer { heif_context_free(context) }
            // A grid has a size of its own. Of a composed picture, libheif 1.15 refuses the limit itself too.
            heif_context_set_maximum_image_size_limit(context, Int32(clamping: longestSide + 1))
            // In this thread.
            heif_context_set_max_decoding_threads(context, 0)
            try Self.check(heif_context_read_from_memory_without_copy(context, bytes.base, bytes.count, nil))
            var handle: OpaquePointer?
            try Self.check(heif_context_get_primary_image_handle(context, &handle))
            defer { heif_image_handle_release(handle) }
            guard let settings = heif_decoding_options_alloc() else { throw PixelMemory.noMemory }
            defer { heif_decoding_options_free(settings) }
            settings.pointee.convert_hdr_to_8bit = 1
            var decoded: OpaquePointer?
            try Self.check(
                heif_decode_image(handle, &decoded, heif_colorspace_RGB, heif_chroma_interleaved_RGBA, settings))
            defer { heif_image_release(decoded) }
            var stride: Int32 = 0
            guard let pixels = heif_image_get_plane_readonly(decoded, heif_channel_interleaved, &stride) else {
                throw Self.broken
            }
            let size = PixelSize(
                width: Int(heif_image_get_width(decoded, heif_channel_interleaved)),
                height: Int(heif_image_get_height(decoded, heif_channel_interleaved)))
            // What the limits allow.
            guard try size == ImageInfo(data).size else { throw Self.broken }
            let hasAlpha = heif_image_handle_has_alpha_channel(handle) != 0
            let isMultiplied = hasAlpha && heif_image_handle_is_premultiplied_alpha(handle) != 0
            var writer = try RowWriter(
                source: size, of: size, alpha: hasAlpha ? .straight : .opaque, options)
            try writer.fill { memory, first, rows throws(DipperError) in
                for y in 0..<rows {
                    memory.advanced(by: y * size.width * 4).copyMemory(
                        from: pixels + (first + y) * Int(stride), byteCount: size.width * 4)
                }
                // Losses may have made colours larger than their alpha.
                if isMultiplied {
                    let pixels = memory.assumingMemoryBound(to: UInt8.self)
                    pixels_unpremultiply(pixels, pixels, rows * size.width)
                }
                return rows
            }
            return try writer.finish(color: color(handle, decoded))
        }

        private func color(_ handle: OpaquePointer?, _ decoded: OpaquePointer?) -> ColorTransform? {
            let length = heif_image_handle_get_raw_color_profile_size(handle)
            if length > 0, length <= ColorTransform.largestProfile {
                var profile = Data(count: length)
                let error = profile.withUnsafeMutableBytes {
                    heif_image_handle_get_raw_color_profile(handle, $0.baseAddress)
                }
                return error.code == heif_error_Ok ? ColorTransform.shared(icc: profile) : nil
            }
            // Of the file, or of the coded picture.
            var coded: UnsafeMutablePointer<heif_color_profile_nclx>?
            if heif_image_handle_get_nclx_color_profile(handle, &coded).code != heif_error_Ok {
                _ = heif_image_get_nclx_color_profile(decoded, &coded)
            }
            guard let coded else { return nil }
            defer { heif_nclx_color_profile_free(coded) }
            let color = CodedColor(
                primaries: Int(coded.pointee.color_primaries.rawValue),
                transfer: Int(coded.pointee.transfer_characteristics.rawValue))
            return color.profile.flatMap { ColorTransform.shared(icc: $0) }
        }

        private static let noPicture = DipperError.undecodable.with(
            detail: "HEIC: there is no still picture, and sequences are not supported")
        private static let broken = DipperError.undecodable.with(detail: "HEIC: the file is broken")

        private static func check(_ error: heif_error) throws(DipperError) {
            if error.code == heif_error_Ok { return }
            let text = error.message.map { String(cString: $0) } ?? ""
            if error.code == heif_error_Memory_allocation_error { throw .imageTooLarge.with(detail: "HEIC: " + text) }
            throw .undecodable.with(detail: "HEIC: " + text)
        }
    }
#endif
