import Dipper
import Foundation

/// A picture as the bytes of a file.
enum PictureFile {
    static let codecs = CodecRegistry.standard

    /// Encodes a picture: with all its frames where the format moves, else the first.
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

    /// What the picture was, if it can be written; else what suits it.
    static func format(of original: Data?, _ image: Image) -> ImageFormat {
        if let format = original.flatMap({ ImageFormat(sniffing: $0) }), codecs.writable.contains(format) {
            return format
        }
        return image.isOpaque ? .jpeg : .png
    }

    /// How the cache keeps resized pictures: nothing is lost twice, and animations keep their frames.
    static let serializer = ImageSerializer { image, _, codecs throws(DipperError) in
        var options = EncodeOptions()
        options.isLossless = true
        let moving = [ImageFormat.webp, .gif].first { codecs.writable.contains($0) }
        return try encode(image, as: image.animation == nil ? .png : moving ?? .png, options)
    }
}
