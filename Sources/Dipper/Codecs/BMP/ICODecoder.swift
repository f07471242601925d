import Foundation

/// A decoder for ICO, the icons of Windows and of web sites: PNG files and bitmaps in several sizes.
///
/// The picture has the size of the largest icon of the file. Without a target that icon is decoded, and with one the smallest
/// icon that need not be enlarged. Bitmaps of 32 bits have alpha unless it is 0 everywhere; the others have a mask of the
/// transparent pixels.
public struct ICODecoder: ImageDecoder {
    /// The format ``ImageFormat/ico``.
    public let format = ImageFormat.ico

    /// Creates a decoder.
    public init() {}

    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        let (icon, options) = try Self.icon(in: data, options)
        if Self.isPNG(icon) { return try PNGDecoder().memory(of: icon, options) }
        return try icon.withBytes { bytes throws(DipperError) in try Bitmap(icon: bytes).memory(options) }
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let (icon, options) = try Self.icon(in: data, options)
        if Self.isPNG(icon) { return try PNGDecoder().decode(icon, options) }
        return try icon.withBytes { bytes throws(DipperError) in try Bitmap(icon: bytes).decode(options) }
    }

    private static func isPNG(_ data: Data) -> Bool { ImageFormat(sniffing: data.prefix(8)) == .png }

    /// Returns the bytes from the icon on that is to be decoded, with options for the size that is wanted, whatever size the
    /// icon itself states.
    private static func icon(
        in data: Data, _ options: DecodeOptions
    ) throws(DipperError) -> (Data, DecodeOptions) {
        let directory = try data.withBytes { bytes throws(DipperError) in
            try IconDirectory(ByteReader(bytes, count: bytes.count))
        }
        try options.limits.check(directory.largest.size)
        var options = options
        let size = try options.storedTarget(for: directory.largest.size, .up)
        options.target = TargetSize(size, .stretch, allowsUpscaling: true)
        // Icons do not move.
        options.firstFrameOnly = true
        return (data.dropFirst(directory.entry(for: size).start), options)
    }
}
