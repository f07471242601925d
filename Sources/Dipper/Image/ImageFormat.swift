/// What kind of file some bytes are.
public struct ImageFormat: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// Such as `jpeg`.
    public let rawValue: String

    /// A format of one's own.
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// ITU-T T.81, in JFIF or Exif.
    public static let jpeg = ImageFormat(rawValue: "jpeg")
    /// W3C Portable Network Graphics, third edition; also APNG.
    public static let png = ImageFormat(rawValue: "png")
    /// GIF87a and GIF89a.
    public static let gif = ImageFormat(rawValue: "gif")
    /// RFC 9649.
    public static let webp = ImageFormat(rawValue: "webp")
    /// AV1 in a file of ISO/IEC 23008-12, also sequences.
    public static let avif = ImageFormat(rawValue: "avif")
    /// HEVC in a file of ISO/IEC 23008-12, also sequences.
    public static let heic = ImageFormat(rawValue: "heic")
    /// TIFF 6.0 and BigTIFF, and the raw files of cameras that are built like them.
    public static let tiff = ImageFormat(rawValue: "tiff")
    /// Bitmaps of Windows and OS/2.
    public static let bmp = ImageFormat(rawValue: "bmp")
    /// Icons of Windows.
    public static let ico = ImageFormat(rawValue: "ico")
    /// ISO/IEC 18181, bare or in its container.
    public static let jpegXL = ImageFormat(rawValue: "jxl")
    /// W3C Scalable Vector Graphics, as UTF-8 text.
    public static let svg = ImageFormat(rawValue: "svg")
    /// ISO 32000.
    public static let pdf = ImageFormat(rawValue: "pdf")
    /// ISO/IEC 14496-14, and films in its relatives of ISO/IEC 14496-12.
    public static let mp4 = ImageFormat(rawValue: "mp4")
    /// The WebM subset of Matroska (RFC 9559).
    public static let webm = ImageFormat(rawValue: "webm")

    /// Such as `jpeg`.
    public var description: String { rawValue }

    /// The media type registered with IANA, such as `image/jpeg`; `application/octet-stream` for formats of one's own.
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

    /// How names of such files end, without the dot: such as `jpg`.
    public var fileExtension: String {
        self == .jpeg ? "jpg" : rawValue
    }
}
