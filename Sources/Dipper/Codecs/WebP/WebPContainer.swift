#if WebP
    import CWebP
    import Foundation

    /// A file's chunks other than the pixels. Owns libwebp's parser of them.
    final class WebPContainer {
        private let demuxer: OpaquePointer

        /// - Parameter bytes: held by the caller for as long as the container.
        /// - Returns: `nil` if there is not even a header. A file that ends too early gives what it holds.
        init?(_ bytes: PinnedBytes) {
            var data = WebPData(bytes: bytes.base, size: bytes.count)
            var state = WEBP_DEMUX_PARSING_HEADER
            guard let demuxer = WebPDemuxPartial(&data, &state) else { return nil }
            self.demuxer = demuxer
        }

        deinit {
            WebPDemuxDelete(demuxer)
        }

        /// Brings the colours of a file into sRGB; `nil` if they are, or the profile is of no use.
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
