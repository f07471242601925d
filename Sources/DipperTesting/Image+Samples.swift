import Dipper
import Foundation

extension Image {
    /// Returns a picture of one colour, of a width and a height in pixels above zero.
    public static func filled(with color: Color, _ width: Int = 16, _ height: Int = 12) -> Image {
        Image(width, height, [SIMD4<UInt8>](repeating: color.premultiplied, count: width * height))
    }

    /// Returns a picture with a pattern, of a width and a height in pixels above zero. Another seed gives other pixels:
    /// in an opaque picture it is the blue of every pixel.
    public static func sample(_ width: Int = 16, _ height: Int = 12, seed: UInt8 = 1, alpha: UInt8 = 255) -> Image {
        let pixels = (0..<width * height).map { index in
            let value = UInt8(truncatingIfNeeded: index &* 7 &+ Int(seed) &* 31)
            return SIMD4(min(value, alpha), min(value &+ 40, alpha), min(seed, alpha), alpha)
        }
        return Image(width, height, pixels)
    }

    private init(_ width: Int, _ height: Int, _ pixels: [SIMD4<UInt8>]) {
        let image = pixels.withUnsafeBytes { bytes in
            Image(size: PixelSize(width: width, height: height), premultiplied: bytes)
        }
        guard let image else { preconditionFailure("A picture of \(width)x\(height) pixels cannot be made.") }
        self = image
    }

    /// The picture as a PNG file. Decoding the file gives the same pixels again.
    public var png: Data { get throws(DipperError) { try CodecRegistry.standard.encode(self, as: .png) } }

    /// The picture as a JPEG file. Decoding the file gives similar pixels, without alpha.
    public var jpeg: Data { get throws(DipperError) { try CodecRegistry.standard.encode(self, as: .jpeg) } }
}

extension ScriptedTransport.Step {
    /// Returns an answer with status 200, a picture's file as its body, and the media type of the format: PNG, JPEG, or
    /// an optional format that the package was built with.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.unencodable`.
    public static func image(
        _ image: Image, as format: ImageFormat = .png, headers: HTTPHeaders = [:]
    ) throws(DipperError) -> Self {
        .file(try CodecRegistry.standard.encode(image, as: format), format, headers)
    }

    /// Returns an answer with status 200, an animated picture's file as its body, and the media type of the format.
    ///
    /// ```swift
    /// let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
    /// try transport.script(url, [.animation(frames)])
    /// ```
    ///
    /// There is at least one frame, and all have one size. The animation plays `loopCount` times, endlessly with 0. The
    /// format is one with animations that the package was built with: GIF, WebP or PNG.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.unencodable`.
    public static func animation(
        _ frames: [AnimationFrame], loopCount: Int = 0, as format: ImageFormat = .gif, headers: HTTPHeaders = [:]
    ) throws(DipperError) -> Self {
        let encoder = try CodecRegistry.standard.encoder(for: format)
        return .file(try encoder.encode(frames, loopCount: loopCount, EncodeOptions()), format, headers)
    }

    private static func file(_ body: Data, _ format: ImageFormat, _ headers: HTTPHeaders) -> Self {
        var headers = headers
        headers["Content-Type"] = headers["Content-Type"] ?? format.mimeType
        return .response(TransferResponse(headers: headers, body: body))
    }
}
