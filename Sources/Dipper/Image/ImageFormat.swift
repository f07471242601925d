/// A file format of pictures.
///
/// ```swift
/// if let format = ImageFormat(sniffing: bytes) {
///     try bytes.write(to: folder.appending(path: "photo.\(format.fileExtension)"))
/// }
/// ```
public struct ImageFormat: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The name of the format, for example `jpeg`.
    public let rawValue: String

    /// Creates a custom format.
    ///
    /// ```swift
    /// let pixmap = ImageFormat(rawValue: "ppm")
    /// ```
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// JPEG (ITU-T T.81), in JFIF or Exif.
    public static let jpeg = ImageFormat(rawValue: "jpeg")
    /// PNG (W3C Portable Network Graphics, third edition), also APNG.
    public static let png = ImageFormat(rawValue: "png")
    /// GIF87a and GIF89a.
    public static let gif = ImageFormat(rawValue: "gif")
    /// WebP (RFC 9649).
    public static let webp = ImageFormat(rawValue: "webp")
    /// AVIF: AV1 in a file of ISO/IEC 23008-12, also sequences.
    public static let avif = ImageFormat(rawValue: "avif")
    /// HEIC: HEVC in a file of ISO/IEC 23008-12, also sequences.
    public static let heic = ImageFormat(rawValue: "heic")
    /// TIFF 6.0, BigTIFF, and raw files of cameras that have the same structure.
    public static let tiff = ImageFormat(rawValue: "tiff")
    /// BMP, the bitmaps of Windows and OS/2.
    public static let bmp = ImageFormat(rawValue: "bmp")
    /// ICO, the icons of Windows.
    public static let ico = ImageFormat(rawValue: "ico")
    /// JPEG XL (ISO/IEC 18181), bare or in its container.
    public static let jpegXL = ImageFormat(rawValue: "jxl")
    /// SVG (W3C Scalable Vector Graphics), as UTF-8 text.
    public static let svg = ImageFormat(rawValue: "svg")
    /// PDF (ISO 32000).
    public static let pdf = ImageFormat(rawValue: "pdf")
    /// MP4 (ISO/IEC 14496-14), and films in related files of ISO/IEC 14496-12.
    public static let mp4 = ImageFormat(rawValue: "mp4")
    /// WebM, the subset of Matroska (RFC 9559).
    public static let webm = ImageFormat(rawValue: "webm")

    /// The name of the format, for example `jpeg`.
    public var description: String { rawValue }

    /// The media type registered with IANA, for example `image/jpeg`; `application/octet-stream` for custom formats.
    public var mimeType: String {
        switch self {
        case .jpeg, .png, .gif, .webp, .avif, .heic, .tiff, .bmp, .jpegXL: "image/\(rawValue)"
        case .ico: "image/vnd.microsoft.icon"
        case .svg: "image/svg+xml"
        case .pdf: "application/pdf"
        case .mp4, .webm: "video/\(rawValue)"
        default: "application/octet-stream"
        }
    }

    /// The usual file name extension, without the dot, for example `jpg`.
    public var fileExtension: String {
        self == .jpeg ? "jpg" : rawValue
    }
}
