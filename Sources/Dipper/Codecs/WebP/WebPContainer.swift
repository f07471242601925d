#if WebP
    import CWebP
    import Foundation

    /// The chunks of a WebP file other than the pixels. The object owns libwebp's demuxer.
    final class WebPContainer {
        private let demuxer: OpaquePointer

        /// Opens a file. A file that ends too early gives the chunks it holds.
        /// - Parameter bytes: the file, held by the caller for as long as the container.
        /// - Returns: `nil` if the bytes do not even hold a header.
        init?(_ bytes: PinnedBytes) {
            var data = WebPData(bytes: bytes.base, size: bytes.count)
            var state = WEBP_DEMUX_PARSING_HEADER
            guard let demuxer = WebPDemuxPartial(&data, &state) else { return nil }
            self.demuxer = demuxer
        }

        deinit {
            WebPDemuxDelete(demuxer)
        }

        /// Returns the conversion of a file's colours to sRGB; `nil` if none is needed or the profile cannot be used.
        static func color(in bytes: PinnedBytes) -> ColorTransform? {
            WebPContainer(bytes)?.chunk("ICCP").flatMap { ColorTransform.shared(icc: $0) }
        }

        private func chunk(_ name: String) -> Data? {
            var iterator = WebPChunkIterator()
            guard WebPDemuxGetChunk(demuxer, name, 1, &iterator) != 0 else { return nil }
            defer { WebPDemuxReleaseChunkIterator(&iterator) }
            guard let bytes = iterator.chunk.bytes else { return nil }
            return Data(bytes: bytes, count: iterator.chunk.size)
        }
    }
#endif
