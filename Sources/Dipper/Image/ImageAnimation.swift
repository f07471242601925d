import Foundation

/// The frames of a picture that moves, decoded when they are asked for.
public final class ImageAnimation: Sendable {
    /// Frames in the file.
    public let frameCount: Int
    /// How often all frames are shown; 0 for ever.
    public let loopCount: Int
    private let data: Data
    private let decoder: any ImageDecoder
    private let options: DecodeOptions
    /// All frames, if they were decoded ahead.
    public let preloaded: [AnimationFrame]?

    init(
        frameCount: Int, loopCount: Int, data: Data, decoder: any ImageDecoder, options: DecodeOptions,
        preloaded: [AnimationFrame]? = nil
    ) {
        self.frameCount = frameCount
        self.loopCount = loopCount
        self.data = data
        self.decoder = decoder
        self.options = options
        self.preloaded = preloaded
    }

    /// What it takes in memory beside the picture itself, which is the first frame, in bytes.
    public var byteCount: Int {
        data.count + (preloaded?.dropFirst().reduce(0) { $0 + $1.image.byteCount } ?? 0)
    }

    /// Decodes the frames anew, from the first, each in the size of the picture.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    public func makeFrameDecoder() throws(DipperError) -> any FrameDecoder {
        guard let frames = try decoder.frames(of: data, options) else {
            throw .undecodable.with(detail: "there are no frames")
        }
        return frames
    }
}

/// One frame as it is shown: what earlier ones left and this one draws.
public struct AnimationFrame: Sendable {
    /// The whole picture as it is to be seen.
    public let image: Image
    /// How long it is shown, as the file says.
    public let duration: Duration

    /// A frame that is shown for a while.
    public init(image: Image, duration: Duration) {
        self.image = image
        self.duration = duration
    }
}

/// Decodes the frames of one picture in order. For one thread at a time.
public protocol FrameDecoder: AnyObject {
    /// The next frame, of the whole picture's size; `nil` after the last.
    /// - Throws: `DipperError.undecodable`, `DipperError.imageTooLarge`.
    func next() throws(DipperError) -> AnimationFrame?
    /// Begins with the first again.
    /// - Throws: `DipperError.undecodable`.
    func rewind() throws(DipperError)
}
