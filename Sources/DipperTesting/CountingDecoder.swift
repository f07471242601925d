import Dipper
import Foundation

/// A decoder that counts its decodes, and that a test can hold up and make fail. It wraps another decoder, or makes
/// pictures itself.
///
/// A held decode occupies a decoding thread: call ``releaseAll()`` before the cache shuts down, which waits for it.
///
/// ```swift
/// let decoder = CountingDecoder(isHeld: true)
/// configuration.codecs.register(decoder)
/// let cache = ImageCache(configuration)
/// let task = cache.getImage(url)
/// try await decoder.waitForDecodes(1)  // the picture has arrived
/// decoder.release()
/// let image = try await task.value
/// ```
public final class CountingDecoder: ImageDecoder {
    private struct State {
        var decodes = 0
        var failures: [DipperError] = []
    }

    private let decoder: any ImageDecoder
    private let door: Door?
    private let state = WatchedState(State())

    /// Creates a decoder that passes its work on to another. With `isHeld`, each decode waits for ``release(_:)``.
    public init(_ decoder: any ImageDecoder = PNGDecoder(), isHeld: Bool = false) {
        self.decoder = decoder
        door = isHeld ? Door() : nil
    }

    /// Creates a decoder that makes a white picture of any bytes that no known format begins with, so that a test needs
    /// no files. If a target is set, for example by `.downsample(width:height:)`, it decides the picture's size.
    ///
    /// ```swift
    /// configuration.codecs.register(CountingDecoder(making: PixelSize(width: 4_000, height: 3_000)))
    /// transport.script(url, [.body(Data("a photograph".utf8))])
    /// ```
    public convenience init(making size: PixelSize, isHeld: Bool = false) {
        self.init(PictureMaker(size: size), isHeld: isHeld)
    }

    /// The number of decodes that have begun, including those that are held and those that failed.
    public var decodes: Int { state.value.decodes }

    /// Returns as soon as at least `count` decodes have begun.
    public func waitForDecodes(
        _ count: Int, within limit: Duration = WaitTimeout.standard
    ) async throws {
        try await state.wait(within: limit, until: { $0.decodes >= count }) {
            "\($0.decodes) of \(count) decodes had begun"
        }
    }

    /// Makes `count` decodes fail with an error: those that are held, or the next ones.
    public func failNext(_ count: Int = 1, with error: DipperError = .undecodable) {
        state.update { $0.failures += Array(repeating: error, count: count) }
    }

    /// Lets `count` decodes continue: those that are held, or the next ones.
    public func release(_ count: Int = 1) { door?.open(count) }

    /// Lets all decodes continue, those that are held and all later ones.
    public func releaseAll() { door?.stayOpen() }

    /// The format of the decoder that does the work.
    public var format: ImageFormat { decoder.format }

    public func recognizes(_ start: Data) -> Bool { decoder.recognizes(start) }
    public func info(of data: Data) throws(DipperError) -> ImageInfo { try decoder.info(of: data) }
    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        try decoder.memory(of: data, options)
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        state.update { $0.decodes += 1 }
        door?.pass()
        let failure = state.update { $0.failures.isEmpty ? nil : $0.failures.removeFirst() }
        if let failure { throw failure }
        return try decoder.decode(data, options)
    }

    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
        try decoder.frames(of: data, options)
    }
}

private struct PictureMaker: ImageDecoder {
    let size: PixelSize

    var format: ImageFormat { ImageFormat(rawValue: "fake") }

    // The cache's own files, such as those of processed pictures, are for the other decoders.
    func recognizes(_ start: Data) -> Bool { ImageFormat(sniffing: start) == nil }
    func info(of data: Data) -> ImageInfo { ImageInfo(format: format, size: size) }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        try options.limits.check(size)
        let size = options.target?.size(for: size) ?? size
        var image = Image.filled(with: .white, size.width, size.height)
        image.scale = options.scale
        return image
    }
}
