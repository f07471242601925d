import Dipper
import Foundation

/// Decodes an input, encodes the picture, and decodes that.
enum EncodeProbe {
    /// - Returns: whether the input was a picture.
    static func run(_ data: Data) -> Bool {
        var options = DecodeOptions()
        options.limits = DecodeProbe.limits
        options.limits.pixels = 1 << 16
        options.allowsPartial = true
        guard let image = try? CodecRegistry.standard.decode(data, options) else { return false }
        for format in CodecRegistry.standard.writable {
            encode(image, format, EncodeOptions(quality: Double(data.count % 101) / 100))
        }
        if let frames = try? frames(image.animation) { encode(frames, image) }
        return true
    }

    private static func encode(_ image: Image, _ format: ImageFormat, _ options: EncodeOptions) {
        do throws(DipperError) {
            let bytes = try CodecRegistry.standard.encode(image, as: format, options)
            let decoded = try CodecRegistry.standard.decode(bytes)
            require(ImageFormat(sniffing: bytes) == format, "\(format) is what was written")
            require(decoded.size == image.size, "\(format) keeps the size \(image.size), not \(decoded.size)")
            PictureRules.check(decoded, is: image.size, DecodeOptions())
            if format == .png, image.isOpaque {
                require(PictureRules.areEqual(image, decoded), "PNG loses nothing of an opaque picture")
            }
        } catch {
            // WebP ends at 16,383 pixels, JPEG at 65,500.
            let isLong = max(image.width, image.height) > 16_383
            require(error == .unencodable && isLong, "\(format) of \(image.size): \(error)")
        }
    }

    private static func frames(_ animation: ImageAnimation?) throws(DipperError) -> [AnimationFrame] {
        guard let decoder = try animation?.makeFrameDecoder() else { return [] }
        var frames: [AnimationFrame] = []
        while frames.count < 8, let frame = try decoder.next() { frames.append(frame) }
        return frames
    }

    private static func compare(_ frames: [AnimationFrame], _ decoded: Image) {
        guard let again = try? self.frames(decoded.animation), frames.count > 1 else { return }
        require(again.count == frames.count, "PNG keeps all frames")
        for (frame, same) in zip(frames, again) {
            require(PictureRules.areEqual(frame.image, same.image), "PNG loses nothing of a frame")
        }
    }

    private static func encode(_ frames: [AnimationFrame], _ image: Image) {
        guard let first = frames.first, max(first.image.width, first.image.height) <= 16_383 else { return }
        for format in [ImageFormat.gif, .webp, .png] where CodecRegistry.standard.writable.contains(format) {
            do throws(DipperError) {
                let encoder = try CodecRegistry.standard.encoder(for: format)
                let bytes = try encoder.encode(frames, loopCount: 0, EncodeOptions())
                let decoded = try CodecRegistry.standard.decode(bytes)
                require(decoded.size == first.image.size, "\(format) keeps the size of frames")
                if format == .png { compare(frames, decoded) }
            } catch {
                // WebP has 24 bits for a frame's milliseconds, and GIF 16 for its hundredths.
                let isLong = frames.contains { $0.duration > .seconds(655) }
                require(
                    error == .unencodable && isLong, "\(format) of \(frames.count) frames of \(image.size): \(error)")
            }
        }
    }
}
