#if SVG
    import CPixels
    import CRSVG
    import Foundation
    import Synchronization

    /// A decoder for SVG, by librsvg: drawn at the size that is asked for.
    ///
    /// An SVG reads no file and no address: it shows pictures that are written inside it as `data:`. Pictures are decoded
    /// apart unless the program says otherwise; behind the wall there are no fonts, so an SVG with text fails there with
    /// `DipperError.undecodable`. The limits hold for the size that is drawn: that of the target, if there is one.
    public struct SVGDecoder: ImageDecoder {
        /// The format ``ImageFormat/svg``.
        public let format = ImageFormat.svg
        public let isolation = Isolation.preferred

        private static let isApart = Atomic(false)

        /// Creates a decoder.
        public init() {}

        /// librsvg starts the threads that filters need with the first filter.
        public func prepareForIsolation() {
            setenv("RAYON_NUM_THREADS", "1", 1)
            // Small blurs need no thread.
            let file = """
                <svg xmlns="http://www.w3.org/2000/svg" width="99" height="99">
                <filter id="f"><feGaussianBlur stdDeviation="9"/></filter><circle r="50" filter="url(#f)"/></svg>
                """
            _ = try? decode(Data(file.utf8), .init())
            Self.isApart.store(true, ordering: .relaxed)
        }

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try SVGFile(data, options).memory
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            let file = try SVGFile(data, options)
            try options.limits.check(bytes: file.memory)
            if Self.isApart.load(ordering: .relaxed), file.hasText {
                throw .undecodable.with(detail: "SVG: text needs fonts, which a helper process cannot read")
            }
            return try file.draw()
        }
    }

    private struct SVGFile {
        /// The memory of a decode, in bytes.
        let memory: Int
        private let header: SVGHeader
        private let size: PixelSize
        private let data: Data
        private let options: DecodeOptions

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            header = try data.withBytes { bytes throws(DipperError) in try SVGHeader(ByteReader(bytes)) }
            size = try options.storedTarget(for: header.size, .up)
            try options.limits.check(size)
            // The elements, and the layers of groups that are mixed before they are drawn.
            memory = try size.byteCount(16) + data.count * 16
            (self.data, self.options) = (data, options)
        }

        /// Whether there is an element `text`, also with a prefix (`<svg:text>`), outside comments.
        var hasText: Bool {
            data.withUnsafeBytes { bytes in
                var rest = bytes[...]
                while let start = rest.firstIndex(of: UInt8(ascii: "<")) {
                    rest = rest[(start + 1)...]
                    if rest.starts(with: "!--".utf8) {
                        guard let end = rest.firstRange(of: Array("-->".utf8)) else { return false }
                        rest = rest[end.upperBound...]
                        continue
                    }
                    let name = rest.prefix { !" \t\r\n/<>".utf8.contains($0) }
                    if name.split(separator: UInt8(ascii: ":")).last?.elementsEqual("text".utf8) == true { return true }
                }
                return false
            }
        }

        func draw() throws(DipperError) -> Image {
            var error: UnsafeMutablePointer<GError>?
            defer { g_clear_error(&error) }
            // Without an address of its own, an SVG can refer to nothing outside.
            let handle = data.withUnsafeBytes { bytes in
                rsvg_handle_new_from_data(
                    bytes.bindMemory(to: UInt8.self).baseAddress, gsize(bytes.count), &error)
            }
            guard let handle else { throw Self.failure(error) }
            defer { g_object_unref(handle) }
            try options.checkCancelled()
            let buffer = try PixelBuffer(size)
            buffer.clear()
            let surface = cairo_image_surface_create_for_data(
                buffer.base.assumingMemoryBound(to: UInt8.self), CAIRO_FORMAT_ARGB32, Int32(clamping: size.width),
                Int32(clamping: size.height), Int32(clamping: buffer.rowStride))
            defer { cairo_surface_destroy(surface) }
            guard cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS, let context = cairo_create(surface) else {
                throw .imageTooLarge.with(detail: "SVG: \(size) pixels")
            }
            defer { cairo_destroy(context) }
            cairo_scale(context, Double(size.width) / header.width, Double(size.height) / header.height)
            var viewport = RsvgRectangle(x: 0, y: 0, width: header.width, height: header.height)
            guard rsvg_handle_render_document(handle, context, &viewport, &error) != 0 else {
                throw Self.failure(error)
            }
            try options.checkCancelled()
            cairo_surface_finish(surface)
            // Cairo's numbers have blue where those of an image have red.
            let pixels = buffer.base.assumingMemoryBound(to: UInt32.self)
            for index in 0..<size.width * size.height {
                let pixel = UInt32(littleEndian: pixels[index])
                pixels[index] = (pixel & 0xFF00_FF00 | pixel << 16 & 0xFF_0000 | pixel >> 16 & 0xFF).littleEndian
            }
            let isOpaque = pixels_are_opaque(
                buffer.base.assumingMemoryBound(to: UInt8.self), size.width * size.height)
            return buffer.image(isOpaque: isOpaque, scale: options.scale)
        }

        private static func failure(_ error: UnsafeMutablePointer<GError>?) -> DipperError {
            let text = error?.pointee.message.map { String(cString: $0) } ?? ""
            return .undecodable.with(detail: "SVG: \(text.prefix(200))")
        }
    }
#endif
