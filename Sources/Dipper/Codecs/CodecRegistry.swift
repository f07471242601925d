import Foundation

/// The formats that can be read and written: a value. Those registered last are asked first.
public struct CodecRegistry: Sendable {
    private var decoders: [any ImageDecoder]
    private var encoders: [any ImageEncoder]

    /// With no format at all.
    public init() {
        decoders = []
        encoders = []
    }

    /// Formats that the package was built with: always JPEG and PNG.
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
        #endif
        registry.register(PNGDecoder())
        registry.register(PNGEncoder())
        return registry
    }()

    /// Adds a format, or takes the place of the one there is.
    public mutating func register(_ decoder: any ImageDecoder) { decoders.insert(decoder, at: 0) }
    /// Adds a format, or takes the place of the one there is.
    public mutating func register(_ encoder: any ImageEncoder) { encoders.insert(encoder, at: 0) }

    /// Formats that can be read.
    public var readable: Set<ImageFormat> { Set(decoders.map(\.format)) }
    /// Formats that can be written.
    public var writable: Set<ImageFormat> { Set(encoders.map(\.format)) }

    /// The decoder for bytes, chosen by how they begin, whatever name or type they came with.
    /// - Throws: `DipperError.unsupportedFormat`.
    public func decoder(for data: Data) throws(DipperError) -> any ImageDecoder {
        let start = data.prefix(Self.sniffLength)
        if let decoder = decoders.first(where: { $0.recognizes(start) }) { return decoder }
        throw .unsupportedFormat.with(detail: ImageFormat(sniffing: start)?.rawValue ?? "unknown bytes")
    }

    /// Bytes that are enough to tell a format.
    static let sniffLength = 256

    /// The encoder for a format.
    /// - Throws: `DipperError.unsupportedFormat`.
    public func encoder(for format: ImageFormat) throws(DipperError) -> any ImageEncoder {
        guard let encoder = encoders.first(where: { $0.format == format }) else {
            throw .unsupportedFormat.with(detail: format.rawValue)
        }
        return encoder
    }

    /// Decodes a picture, with the frames of an animation to be decoded later, unless the options say otherwise.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.undecodable`, `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`.
    public func decode(_ data: Data, _ options: DecodeOptions = .init()) throws(DipperError) -> Image {
        try decoder(for: data).decode(data, options)
    }

    /// Encodes a picture.
    /// - Throws: `DipperError.unsupportedFormat`, `DipperError.unencodable`.
    public func encode(
        _ image: Image, as format: ImageFormat, _ options: EncodeOptions = .init()
    ) throws(DipperError) -> Data {
        try encoder(for: format).encode(image, options)
    }
}
