import Foundation

/// The decoders and encoders of picture formats. Codecs registered later are asked first. A registry also works without
/// a cache:
///
/// ```swift
/// let codecs = CodecRegistry.standard
/// let image = try codecs.decode(bytes)                       // also Image(data: bytes)
/// let file = try codecs.encode(image, as: .png)              // also image.encoded(as: .png)
/// ```
public struct CodecRegistry: Sendable {
    private var decoders: [any ImageDecoder]
    private var encoders: [any ImageEncoder]

    /// Creates a registry without formats.
    ///
    /// ```swift
    /// configuration.codecs = CodecRegistry()
    /// configuration.codecs.register(JPEGDecoder())        // the cache reads JPEG and nothing else
    /// configuration.codecs.register(JPEGEncoder())
    /// ```
    public init() {
        decoders = []
        encoders = []
    }

    /// A registry with JPEG, PNG, also animated, BMP and ICO, and with GIF, WebP, AVIF, HEIC, JPEG XL and SVG as the
    /// package's traits say.
    public static let standard: CodecRegistry = {
        var registry = CodecRegistry()
        registry.register(JPEGDecoder())
        registry.register(JPEGEncoder())
        #if GIF
            registry.register(GIFDecoder())
            registry.register(GIFEncoder())
        #endif
        #if WebP
            registry.register(WebPDecoder())
            registry.register(WebPEncoder())
        #endif
        #if AVIF
            registry.register(AVIFDecoder())
            registry.register(AVIFEncoder())
        #endif
        #if HEIC
            registry.register(HEICDecoder())
        #endif
        #if JXL
            registry.register(JPEGXLDecoder())
        #endif
        #if SVG
            registry.register(SVGDecoder())
        #endif
        registry.register(BMPDecoder())
        registry.register(ICODecoder())
        registry.register(PNGDecoder())
        registry.register(PNGEncoder())
        return registry
    }()

    /// Registers a decoder. It is asked before all decoders registered earlier. See ``ImageDecoder``.
    public mutating func register(_ decoder: any ImageDecoder) { decoders.insert(decoder, at: 0) }
    /// Registers an encoder. It replaces an earlier encoder of the same format. See ``ImageEncoder``.
    public mutating func register(_ encoder: any ImageEncoder) { encoders.insert(encoder, at: 0) }

    /// The formats that can be read.
    public var readable: Set<ImageFormat> { Set(decoders.map(\.format)) }
    /// The value of an `Accept` field by which a server can choose among the formats that can be read, the smallest ones
    /// first. BMP and ICO, the largest, are not named.
    ///
    /// ```swift
    /// configuration.data.completeRequest = { [accept = configuration.codecs.accept] request in
    ///     request.headers["Accept"] = accept
    /// }
    /// ```
    public var accept: String {
        let types = readable.subtracting([.bmp, .ico]).map(\.mimeType).filter { $0.hasPrefix("image/") }.sorted()
        let small = ["image/avif", "image/jxl", "image/webp"].filter(types.contains)
        return (small + types.filter { !small.contains($0) } + ["*/*;q=0.5"]).joined(separator: ",")
    }
    /// The formats that can be written.
    public var writable: Set<ImageFormat> { Set(encoders.map(\.format)) }

    /// Returns the decoder for a file, chosen by its first bytes, not by its name or media type.
    /// - Throws: `DipperError.unsupportedFormat`.
    public func decoder(for data: Data) throws(DipperError) -> any ImageDecoder {
        let start = data.prefix(Self.sniffLength)
        if let decoder = decoders.first(where: { $0.recognizes(start) }) { return decoder }
        throw .unsupportedFormat.with(detail: ImageFormat(sniffing: start)?.rawValue ?? "unknown bytes")
    }

    /// As many bytes as ``ImageFormat/init(sniffing:)`` examines.
    static let sniffLength = 4096

    /// Returns the encoder of a format.
    /// - Throws: `DipperError.unsupportedFormat`.
    public func encoder(for format: ImageFormat) throws(DipperError) -> any ImageEncoder {
        guard let encoder = encoders.first(where: { $0.format == format }) else {
            throw .unsupportedFormat.with(detail: format.rawValue)
        }
        return encoder
    }

    /// Decodes a picture. The other frames of an animation are decoded later unless the options say otherwise.
    ///
    /// With ``DecodeOptions/isolation``, a helper process decodes.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.undecodable`, `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`; `DipperError.processingFailed` for a target without pixels; `DipperError.decoderFailed`
    ///   if a helper fails, and `DipperError.notIsolated` if there is none although it is required.
    public func decode(_ data: Data, _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        let decoder = try decoder(for: data)
        var options = options
        options.target = options.target?.pixels(at: options.scale)
        try options.target?.check()
        options.isolation = isolation(of: decoder, options)
        if options.isolation == .off { return try decoder.decode(data, options) }
        let name = Self.name(of: decoder)
        guard let helpers = try DecoderPool.of(name, options) else { return try decoder.decode(data, options) }
        do throws(DipperError) {
            let info = try? ImageInfo(data)
            return try helpers.decode(data, options, by: name, (info?.loopDuration, info?.size))
        } catch {
            // Helpers have become impossible meanwhile.
            guard error == .notIsolated, options.isolation == .preferred else { throw error }
            return try decoder.decode(data, options)
        }
    }

    /// Whether a decoder runs in a helper: as the options say, or with ``Isolation/automatic`` as its format asks for.
    func isolation(of decoder: any ImageDecoder, _ options: DecodeOptions) -> Isolation {
        options.isolation == .automatic ? decoder.isolation : options.isolation
    }

    /// Whether pictures of a format are decoded apart unless the program says otherwise.
    var isolatesFormats: Bool { decoders.contains { $0.isolation != .off } }

    /// Does what the decoders need before a helper's wall stands.
    func prepareForIsolation() {
        for decoder in decoders { decoder.prepareForIsolation() }
    }

    /// By which the program and a helper know that they mean the same decoder: the format and the type, without the address
    /// that stands for the file of a private type, which is another one in each process.
    private static func name(of decoder: any ImageDecoder) -> String {
        let parts = String(reflecting: type(of: decoder)).split(separator: ".")
        let type = parts.filter { !$0.hasPrefix("(unknown context at ") }.joined(separator: ".")
        return "\(type) (\(decoder.format))"
    }
    var decoderNames: [String] { decoders.map(Self.name) }
    func decoder(named name: String) -> (any ImageDecoder)? { decoders.first { Self.name(of: $0) == name } }

    /// Encodes a picture as a file of a format: an animation with all its frames if the format moves, which GIF, WebP and
    /// PNG do; in other formats as its first frame. The frames are decoded and written one after the other.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.unencodable`; `DipperError.undecodable` if a frame of an
    ///   animation cannot be decoded; `DipperError.imageTooLarge` if there is no memory, or the frames have more bytes
    ///   together than ``DecodeLimits/bytes``, or in the file more pixels than ``DecodeLimits/pixels``; what processors of
    ///   frames throw.
    public func encode(
        _ image: Image, as format: ImageFormat, _ options: EncodeOptions = .init()
    ) throws(DipperError) -> Data {
        let encoder = try encoder(for: format)
        guard let animation = image.animation, encoder.encodesAnimations else {
            return try encoder.encode(image, options)
        }
        // The largest number that both GIF and WebP can state.
        let loopCount = min(animation.loopCount, 0xFFFF)
        return try encoder.encode(animation.frames(like: image), loopCount: loopCount, options)
    }
}
