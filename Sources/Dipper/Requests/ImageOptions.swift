import Foundation

/// The options for decoding, processing and keeping a picture, of an ``ImageRequest`` or as the defaults of an
/// ``ImageCache``.
///
/// An option of a request that is `nil` takes its value from the cache's options. If that is `nil` too, the default in
/// the option's description applies.
public struct ImageOptions: Sendable {
    /// The processors, applied in order; none by default. If the first processor has an
    /// ``ImageProcessor/decodeTarget``, the picture is decoded to that size.
    public var processors: [any ImageProcessor]?
    /// The number of pixels for each point of the display, noted in the result; 1 by default.
    public var scale: Double?
    /// Whether an animation is reduced to its first frame; `false` by default.
    public var firstFrameOnly: Bool?
    /// Whether all frames of an animation are decoded at once, as far as ``DecodeLimits/bytes`` allows; `false` by
    /// default.
    public var preloadsFrames: Bool?
    /// Whether a file that ends too early gives a partial picture instead of an error; `false` by default.
    public var allowsPartial: Bool?
    /// Whether ``ImageTask/onPreview(_:)`` receives previews of a progressive picture while its bytes arrive; `false`
    /// by default.
    public var showsPreviews: Bool?
    /// Whether the original stays on disk when processors have run; `true` by default.
    public var keepsOriginal: Bool?
    /// Whether pictures that a call in `slowQueue` has decoded are kept in memory; `true` by default.
    public var prefetchesToMemory: Bool?
    /// The rule by which processed pictures, and pictures added by the caller, are written on disk;
    /// ``ImageSerializer/automatic`` by default.
    public var serializer: ImageSerializer?
    /// A closure that changes each picture before the cache returns it; none by default. The cache keeps the unchanged
    /// picture.
    ///
    /// The cache calls the closure for every answer and every preview. The closure receives an animated picture with
    /// its first frame; ``AnimationOptions/processors`` change the other frames.
    public var imageModifier: (@Sendable (Image) -> Image)?
    /// The queue on which decoding and processing run. By default, and with `CallbackQueue.inPlace`, they run on
    /// threads of the cache's own, urgent work first.
    public var processingQueue: CallbackQueue?
    /// The data cache that stores and fetches the originals; ``ImageCache/data`` by default.
    public var originals: DataCache?

    /// Creates options that are all `nil`.
    public init() {}

    /// Returns these options, with each option that is `nil` taken from the defaults.
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

    /// A reference to options, which keeps requests small.
    final class Box: Sendable {
        let options: ImageOptions

        init(_ options: ImageOptions) {
            self.options = options
        }
    }
}
