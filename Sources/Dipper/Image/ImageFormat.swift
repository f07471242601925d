import Foundation

/// What kind of file some bytes are.
public struct ImageFormat: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// Such as `jpeg`.
    public let rawValue: String

    /// A format of one's own.
    public init(rawValue: String) {
        self.rawValue = rawValue
    }

    public static let jpeg = ImageFormat(rawValue: "jpeg")
    public static let png = ImageFormat(rawValue: "png")
    public static let gif = ImageFormat(rawValue: "gif")
    public static let webp = ImageFormat(rawValue: "webp")
    public static let avif = ImageFormat(rawValue: "avif")
    public static let heic = ImageFormat(rawValue: "heic")
    public static let tiff = ImageFormat(rawValue: "tiff")
    public static let bmp = ImageFormat(rawValue: "bmp")
    public static let ico = ImageFormat(rawValue: "ico")
    public static let jpegXL = ImageFormat(rawValue: "jxl")
    public static let svg = ImageFormat(rawValue: "svg")
    public static let pdf = ImageFormat(rawValue: "pdf")
    public static let mp4 = ImageFormat(rawValue: "mp4")
    public static let webm = ImageFormat(rawValue: "webm")

    /// Such as `jpeg`.
    public var description: String { rawValue }
}
