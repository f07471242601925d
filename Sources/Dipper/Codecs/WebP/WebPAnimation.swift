#if WebP
    import CWebP
    import Foundation

    /// A writer of a WebP animation. It owns libwebp's encoder.
    final class WebPAnimation {
        private let encoder: OpaquePointer
        private let size: PixelSize
        /// The time at which the next frame begins.
        private var time = Duration.zero

        init(_ size: PixelSize, loopCount: Int) throws(DipperError) {
            guard (0...0xFFFF).contains(loopCount) else {
                throw .unencodable.with(detail: "WebP: shown \(loopCount) times")
            }
            self.size = size
            var settings = WebPAnimEncoderOptions()
            guard WebPAnimEncoderOptionsInit(&settings) != 0 else {
                throw .unencodable.with(detail: "WebP: another version of libwebp")
            }
            settings.anim_params.loop_count = Int32(loopCount)
            guard let encoder = WebPAnimEncoderNew(Int32(clamping: size.width), Int32(clamping: size.height), &settings)
            else { throw .unencodable.with(detail: "WebP: \(size) pixels") }
            self.encoder = encoder
        }

        deinit {
            WebPAnimEncoderDelete(encoder)
        }

        func add(_ frame: AnimationFrame, _ settings: inout WebPConfig) throws(DipperError) {
            guard frame.image.size == size else {
                throw .unencodable.with(detail: "frames of \(size) and of \(frame.image.size) pixels")
            }
            guard try WebPPixels(frame.image).add(to: encoder, at: timestamp(), &settings) else { throw error }
            time += max(.zero, frame.duration)
        }

        /// Ends the animation and returns the bytes of the file.
        func finish() throws(DipperError) -> Data {
            guard WebPAnimEncoderAdd(encoder, nil, try timestamp(), nil) != 0 else { throw error }
            var data = WebPData()
            WebPDataInit(&data)
            defer { WebPDataClear(&data) }
            guard WebPAnimEncoderAssemble(encoder, &data) != 0, let bytes = data.bytes else { throw error }
            return Data(bytes: bytes, count: data.size)
        }

        /// Returns the current time in milliseconds. Only the sum of the durations is rounded, so that errors do not
        /// add up.
        private func timestamp() throws(DipperError) -> Int32 {
            let milliseconds = (time / .milliseconds(1)).rounded()
            guard milliseconds < Double(Int32.max) else { throw .unencodable.with(detail: "WebP: too long") }
            return Int32(milliseconds)
        }

        private var error: DipperError {
            let text = WebPAnimEncoderGetError(encoder).map { String(cString: $0) } ?? ""
            return .unencodable.with(detail: "WebP: " + text)
        }
    }
#endif
