import Dipper
import Foundation

/// The encoding of pictures as the bytes of files.
enum PictureFile {
    static let codecs = CodecRegistry.standard

    /// Encodes a picture: with all its frames if the format can hold them, otherwise the first frame.
    static func encode(
        _ image: Image, as format: ImageFormat, _ options: EncodeOptions = .init()
    ) throws(DipperError) -> Data {
        let encoder = try codecs.encoder(for: format)
        guard let animation = image.animation, [.gif, .webp].contains(format) else {
            return try encoder.encode(image, options)
        }
        return try encoder.encode(frames(of: animation, image), loopCount: animation.loopCount, options)
    }

    private static func frames(of animation: ImageAnimation, _ first: Image) throws(DipperError) -> [AnimationFrame] {
        if let frames = animation.preloaded { return frames }
        let (bytes, overflows) = (first.rowStride * first.height).multipliedReportingOverflow(by: animation.frameCount)
        try DecodeLimits().check(bytes: overflows ? .max : bytes)
        let decoder = try animation.makeFrameDecoder()
        var frames: [AnimationFrame] = []
        while let frame = try decoder.next() { frames.append(frame) }
        return frames
    }

    /// Returns the format of the original, if it can be written; otherwise JPEG for an opaque picture, and PNG for any
    /// other.
    static func format(of original: Data?, _ image: Image) -> ImageFormat {
        if let format = original.flatMap({ ImageFormat(sniffing: $0) }), codecs.writable.contains(format) {
            return format
        }
        return image.isOpaque ? .jpeg : .png
    }

    /// The serializer with which the cache keeps resized pictures: without loss where the format allows it, and with
    /// all frames of animations.
    static let serializer = ImageSerializer { image, _, codecs throws(DipperError) in
        var options = EncodeOptions()
        options.isLossless = true
        let moving = [ImageFormat.webp, .gif].first { codecs.writable.contains($0) }
        return try encode(image, as: image.animation == nil ? .png : moving ?? .png, options)
    }
}
