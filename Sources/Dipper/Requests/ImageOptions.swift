/// The options for decoding, processing and keeping a picture, of an ``ImageRequest`` or as the defaults of an
/// ``ImageCache``.
///
/// An option of a request that is `nil` takes its value from the cache's options. If that is `nil` too, the default in
/// the option's description applies. ``ImageCache/options(of:)`` returns the values that apply.
///
/// ```swift
/// var options = ImageOptions()
/// options.processors = [.downsample(width: 320, height: 240), .circle]
/// options.serializer = .png
/// let request = ImageRequest(url).with(\.options, options)
/// ```
public struct ImageOptions: Sendable {
    /// The processors, applied in order; none by default.
    public var processors: [any ImageProcessor]?

    /// The number of pixels for each point of the display, stored in the result and used for sizes and lengths in
    /// points; 1 by default.
    ///
    /// ```swift
    /// let request = ImageRequest(url)
    ///     .with(\.scale, 2)
    ///     .processed(by: .downsample(width: 200, height: 150).points)       // at most 400 × 300 pixels
    ///     .processed(by: .roundedCorners(radius: .points(8)))               // 16 pixels
    /// ```
    public var scale: Double?

    /// Whether an animation is reduced to its first frame; `false` by default.
    public var firstFrameOnly: Bool?

    /// Whether all frames of an animation are decoded at once, as far as ``DecodeLimits/bytes`` allows; `false` by
    /// default. They are then in ``ImageAnimation/preloaded``.
    public var preloadsFrames: Bool?

    /// Whether a file that ends too early gives a partial picture instead of an error; `false` by default.
    public var allowsPartial: Bool?
    /// Whether previews of a JPEG, PNG, WebP or GIF file are made while its bytes arrive: with `true` also for displays and
    /// ``ImageTask/events``, with `false` not at all. By default a call makes them if it is asked for them by
    /// ``ImageTask/onPreview(_:)`` or ``ImageTask/previews``.
    public var showsPreviews: Bool?

    /// Whether the picture in another size, if memory or the disk has that, is shown until the picture itself is there: as
    /// a preview of the call, before those that are made of arriving bytes. With `true` also for calls, with `false` not
    /// at all; by default an ``ImageBinding`` shows it in its display.
    ///
    /// Another size is a picture of the same bytes, or of another URL of ``ImageRequest/init(widths:)``, whose processors
    /// differ in `resize` alone. Nothing is fetched for it, and it is never the answer of the call.
    ///
    /// ```swift
    /// let request = ImageRequest(url).with(\.showsOtherSizes, true).processed(by: .resize(width: 1600))
    /// for await preview in cache.getImage(request).previews { view.show(preview) }
    /// ```
    public var showsOtherSizes: Bool?

    /// Whether the original stays on disk when processors have run; `true` by default, but `false` for a local source
    /// (`DataProvider.isLocal`), which has it already.
    public var keepsOriginal: Bool?

    /// Whether pictures that a call in `slowQueue` has decoded are kept in memory; `true` by default.
    public var prefetchesToMemory: Bool?

    /// The rule by which processed pictures, and pictures added by the caller, are written on disk;
    /// ``ImageSerializer/automatic`` by default.
    public var serializer: ImageSerializer?
    /// A closure that changes each picture before the cache returns it; none by default. The cache keeps the unchanged
    /// picture.
    ///
    /// The cache calls the closure for every answer and every preview. Of an animated picture, the closure can change
    /// only the first frame; ``AnimationOptions/processors`` change every frame.
    public var imageModifier: (@Sendable (Image) -> Image)?

    /// The queue on which decoding and processing run. By default, and with `CallbackQueue.inPlace`, they run on the
    /// cache's threads, urgent work first.
    public var processingQueue: CallbackQueue?

    /// The data cache that stores and fetches the originals; ``ImageCache/data`` by default.
    public var originals: DataCache?

    var target: (any AnyObject & Sendable)?
    /// The maker of the picture's file, if the bytes are those of a video.
    var extractor: VideoFrameProvider?
    /// The URLs of the picture's sizes, if there are several.
    var sizes: SizedURLs?

    /// The size in pixels that the first processor makes.
    var decodeTarget: TargetSize? { ImageProcessors.Chain(processors ?? []).decodeTarget?.pixels(at: scale ?? 1) }

    /// Creates options that are all `nil`.
    public init() {}

    /// Returns a copy of the options with one option changed.
    public func with<Value>(_ option: WritableKeyPath<ImageOptions, Value>, _ value: Value) -> ImageOptions {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }

    /// The defaults in the descriptions.
    static let standard = ImageOptions()
        .with(\.processors, []).with(\.scale, 1).with(\.firstFrameOnly, false).with(\.preloadsFrames, false)
        .with(\.allowsPartial, false).with(\.showsPreviews, false).with(\.keepsOriginal, true)
        .with(\.prefetchesToMemory, true).with(\.serializer, .automatic)

    func over(_ defaults: ImageOptions) -> ImageOptions {
        var all = self
        all.processors = processors ?? defaults.processors
        all.scale = scale ?? defaults.scale
        all.firstFrameOnly = firstFrameOnly ?? defaults.firstFrameOnly
        all.preloadsFrames = preloadsFrames ?? defaults.preloadsFrames
        all.allowsPartial = allowsPartial ?? defaults.allowsPartial
        all.showsPreviews = showsPreviews ?? defaults.showsPreviews
        all.showsOtherSizes = showsOtherSizes ?? defaults.showsOtherSizes
        all.keepsOriginal = keepsOriginal ?? defaults.keepsOriginal
        all.prefetchesToMemory = prefetchesToMemory ?? defaults.prefetchesToMemory
        all.serializer = serializer ?? defaults.serializer
        all.imageModifier = imageModifier ?? defaults.imageModifier
        all.processingQueue = processingQueue ?? defaults.processingQueue
        all.originals = originals ?? defaults.originals
        all.target = target ?? defaults.target
        return all
    }

    private var isComparable: Bool {
        serializer == nil && imageModifier == nil && processingQueue == nil && originals == nil && target == nil
    }

    func isEqual(to other: ImageOptions) -> Bool {
        isComparable && other.isComparable && processors?.map(\.identifier) == other.processors?.map(\.identifier)
            && scale == other.scale && firstFrameOnly == other.firstFrameOnly
            && preloadsFrames == other.preloadsFrames && allowsPartial == other.allowsPartial
            && showsPreviews == other.showsPreviews && keepsOriginal == other.keepsOriginal
            && prefetchesToMemory == other.prefetchesToMemory && extractor?.name == other.extractor?.name
            && SizedURLs.areEqual(sizes, other.sizes) && showsOtherSizes == other.showsOtherSizes
    }
}
