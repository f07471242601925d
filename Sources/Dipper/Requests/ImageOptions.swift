import Foundation

/// What becomes of the bytes: options of an ``ImageRequest``, and of an ``ImageCache`` for requests that say nothing.
///
/// `nil` means: as the cache has it, or the default given with each.
public struct ImageOptions: Sendable {
    /// Applied one after the other. A first one that changes the size is applied while decoding. Default: none.
    public var processors: [any ImageProcessor]?
    /// Pixels for each point of the display, noted in the result; 1.
    public var scale: Double?
    /// Leaves out the other frames of an animation; `false`.
    public var firstFrameOnly: Bool?
    /// Decodes all frames of an animation at once, as far as ``DecodeLimits/bytes`` allows; `false`.
    public var preloadsFrames: Bool?
    /// A file that ends too early gives a picture in part instead of an error; `false`.
    public var allowsPartial: Bool?
    /// Shows progressive pictures while their bytes arrive: ``ImageTask/onPreview(_:)``; `false`.
    public var showsPreviews: Bool?
    /// Keeps the original on disk also when a processor ran; `true`.
    public var keepsOriginal: Bool?
    /// Keeps in memory what a call in `slowQueue` has decoded; `true`.
    public var prefetchesToMemory: Bool?
    /// How processed pictures, and pictures added by hand, are written on disk; ``ImageSerializer/automatic``.
    public var serializer: ImageSerializer?
    /// Changes what is handed out, not what is kept. Called for every answer, of a picture that moves with the first frame:
    /// the others are changed by ``AnimationOptions/processors``. Default: none.
    public var imageModifier: (@Sendable (Image) -> Image)?
    /// Where decoding and processing run; by default, and for `CallbackQueue.inPlace`, on threads of the cache's own,
    /// urgent work first.
    public var processingQueue: CallbackQueue?
    /// Who has the originals and fetches them; by default the image cache's ``ImageCache/data``.
    public var originals: DataCache?

    /// Nothing said.
    public init() {}

    /// The same, with what it does not say taken from others.
    func over(_ defaults: ImageOptions) -> ImageOptions {
        var all = self
        all.processors = processors ?? defaults.processors
        all.scale = scale ?? defaults.scale
        all.firstFrameOnly = firstFrameOnly ?? defaults.firstFrameOnly
        all.preloadsFrames = preloadsFrames ?? defaults.preloadsFrames
        all.allowsPartial = allowsPartial ?? defaults.allowsPartial
        all.showsPreviews = showsPreviews ?? defaults.showsPreviews
        all.keepsOriginal = keepsOriginal ?? defaults.keepsOriginal
        all.prefetchesToMemory = prefetchesToMemory ?? defaults.prefetchesToMemory
        all.serializer = serializer ?? defaults.serializer
        all.imageModifier = imageModifier ?? defaults.imageModifier
        all.processingQueue = processingQueue ?? defaults.processingQueue
        all.originals = originals ?? defaults.originals
        return all
    }

    /// Keeps requests small.
    final class Box: Sendable {
        let options: ImageOptions

        init(_ options: ImageOptions) {
            self.options = options
        }
    }
}
