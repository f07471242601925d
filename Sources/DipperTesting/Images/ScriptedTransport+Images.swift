import Dipper
import Foundation

extension ScriptedTransport.Step {
    /// Returns an answer with status 200, a picture's file as its body, and the media type of the format.
    ///
    /// ```swift
    /// try transport.script(url, [.status(503), .image(.sample())])
    /// ```
    /// - Parameters:
    ///   - image: the picture.
    ///   - format: a format that the package writes: PNG and JPEG, which are always built, or an optional format.
    ///   - headers: further header fields.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.unencodable`.
    public static func image(
        _ image: Image, as format: ImageFormat = .png, headers: HTTPHeaders = [:]
    ) throws(DipperError) -> Self {
        .file(try CodecRegistry.standard.encode(image, as: format), format, headers)
    }

    /// Returns an answer with status 200, the file of an animated picture as its body, and the media type of the
    /// format.
    ///
    /// ```swift
    /// let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(40)) }
    /// try transport.script(url, [.animation(frames)])
    /// ```
    /// - Parameters:
    ///   - frames: at least one, all of one size.
    ///   - loopCount: the number of times the animation plays; 0 for endlessly.
    ///   - format: a format with animations that the package was built with: GIF or WebP.
    ///   - headers: further header fields.
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
