import Foundation

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
    /// JPEG 2000 (ISO/IEC 15444), as a codestream or in a file of boxes.
    public static let jpeg2000 = ImageFormat(rawValue: "jp2")
    /// SVG (W3C Scalable Vector Graphics), as UTF-8 text.
    public static let svg = ImageFormat(rawValue: "svg")
    /// PDF (ISO 32000).
    public static let pdf = ImageFormat(rawValue: "pdf")
    /// MP4 (ISO/IEC 14496-14), and films in related files of ISO/IEC 14496-12.
    public static let mp4 = ImageFormat(rawValue: "mp4")
    /// MOV, films of QuickTime.
    public static let mov = ImageFormat(rawValue: "mov")
    /// WebM, the subset of Matroska (RFC 9559).
    public static let webm = ImageFormat(rawValue: "webm")

    /// The name of the format, for example `jpeg`.
    public var description: String { rawValue }

    /// The media type registered with IANA, for example `image/jpeg`; `application/octet-stream` for custom formats.
    public var mimeType: String {
        switch self {
        case .jpeg, .png, .gif, .webp, .avif, .heic, .tiff, .bmp, .jpegXL, .jpeg2000: "image/\(rawValue)"
        case .ico: "image/vnd.microsoft.icon"
        case .svg: "image/svg+xml"
        case .pdf: "application/pdf"
        case .mp4, .webm: "video/\(rawValue)"
        case .mov: "video/quicktime"
        default: "application/octet-stream"
        }
    }

    /// The usual file name extension, without the dot, for example `jpg`.
    public var fileExtension: String {
        self == .jpeg ? "jpg" : rawValue
    }

    /// Creates the format of a file from its first bytes, whatever its name or media type; `nil` if the format is
    /// unknown.
    ///
    /// The first 256 bytes are enough for most files, and often the first 16. For svg and the brands of a `ftyp` box up
    /// to 4096 bytes are examined.
    ///
    /// | format | begins with |
    /// |---|---|
    /// | jpeg | `FF D8 FF` (ITU-T T.81, annex B) |
    /// | png | `89 PNG 0D 0A 1A 0A` (W3C PNG, section 5.2) |
    /// | gif | `GIF87a`, `GIF89a` |
    /// | webp | `RIFF`, four bytes, `WEBP` (RFC 9649, section 2.4) |
    /// | avif | `ftyp`: `avif`, `avis` (AV1 Image File Format, section 6) |
    /// | heic | `ftyp`: `heic`, `heix`, `heim`, `heis`, `hevc`, `hevx`, `hevm`, `hevs` (ISO/IEC 23008-12, annex B) |
    /// | mp4 | `ftyp`: `mp41`, `mp42`, `isom`, `iso2`…`iso9`, `avc1`, `dash`, `M4V `, `3gp4`…`3gp6`, `3g2a` (ISO/IEC 14496-12, annex E) |
    /// | mov | `ftyp`: `qt  `; or a box `moov`, `wide` or `mdat`, as QuickTime wrote them before there was `ftyp` |
    /// | tiff | `II` or `MM`, then 42, or 43 for BigTIFF (TIFF 6.0, section 2) |
    /// | bmp | `BM`, and at byte 14 the length of a known header |
    /// | ico | `00 00 01 00`, and a plausible directory |
    /// | jxl | `FF 0A`, or the box `JXL ` with `0D 0A 87 0A` (ISO/IEC 18181-2) |
    /// | jp2 | `FF 4F FF 51`, or the box `jP  ` with `0D 0A 87 0A` (ISO/IEC 15444-1, annexes A and I) |
    /// | svg | `<svg` or `<!DOCTYPE svg`, after white space, processing instructions and comments |
    /// | pdf | `%PDF-` (ISO 32000, section 7.5.2) |
    /// | webm | `1A 45 DF A3` with the document type `webm` (RFC 8794, section 11.2) |
    ///
    /// The codes after `ftyp` are brands of that box. Its major brand decides if it is one of these. Otherwise, as with
    /// `mif1` and `msf1`, the first compatible brand of a picture decides, or else one of a film.
    public init?(sniffing start: Data) {
        guard let format = start.withUnsafeBytes({ Self.sniff(ByteReader($0)) }) else { return nil }
        self = format
    }

    static func sniff(_ bytes: ByteReader) -> ImageFormat? {
        let start = (try? bytes.u32(at: 0)) ?? (try? bytes.u16(at: 0) << 16) ?? 0
        switch start {
        case 0xFFD8_FF00...0xFFD8_FFFF: return .jpeg
        case 0x8950_4E47: return bytes.holds("\r\n\u{1A}\n", at: 4) ? .png : nil
        case 0x4949_2A00, 0x4D4D_002A, 0x4949_2B00, 0x4D4D_002B: return .tiff
        case 0xFF0A_0000...0xFF0A_FFFF: return .jpegXL
        case 0x0000_000C where bytes.holds("\r\n", at: 8) && (try? bytes.u16(at: 10)) == 0x870A:
            return bytes.holds("JXL ", at: 4) ? .jpegXL : bytes.holds("jP  ", at: 4) ? .jpeg2000 : nil
        case 0xFF4F_FF51: return .jpeg2000
        case 0x0000_0100: return isIcon(bytes) ? .ico : nil
        case 0x1A45_DFA3: return isWebM(bytes) ? .webm : nil
        default: break
        }
        if bytes.holds("GIF87a") || bytes.holds("GIF89a") { return .gif }
        // mutant ImageFormat: `", at: 8) { ret` => `", at: 9) { ret`
        if bytes.holds("RIFF"), bytes.holds("WEBP", at: 8) { return .webp }
        if bytes.holds("ftyp", at: 4) { return brand(bytes) }
        if isOldQuickTime(bytes, length: start) { return .mov }
        if bytes.holds("%PDF-") { return .pdf }
        if bytes.holds("BM") { return isBitmap(bytes) ? .bmp : nil }
        return isSVG(bytes) ? .svg : nil
    }

    /// The length of the first box is no text.
    private static func isOldQuickTime(_ bytes: ByteReader, length: Int) -> Bool {
        if bytes.holds("wide", at: 4) { return length == 8 }
        if bytes.holds("moov", at: 4) { return bytes.holds("mvhd", at: 12) || bytes.holds("cmov", at: 12) }
        return bytes.holds("mdat", at: 4) && length < 0x2000_0000
    }

    /// Many texts begin with the same two letters, so a known header must follow.
    private static func isBitmap(_ bytes: ByteReader) -> Bool {
        guard let length = try? bytes.u32(at: 14, .little) else { return false }
        return BitmapHeader.lengths.contains(length)
    }

    /// The directory must have an entry whose reserved byte is zero and whose picture follows the directory.
    private static func isIcon(_ bytes: ByteReader) -> Bool {
        guard let count = try? bytes.u16(at: 4, .little), count > 0, (try? bytes.u8(at: 9)) == 0,
            let offset = try? bytes.u32(at: 18, .little)
        else { return false }
        return offset >= 6 + count * 16
    }

    private static func isSVG(_ bytes: ByteReader) -> Bool {
        var rest = bytes.bytes.prefix(4096)
        if bytes.holds("\u{FEFF}") { rest = rest.dropFirst(3) }
        while true {
            rest = rest.drop { " \t\r\n".utf8.contains($0) }
            let skipped = [("<!--", "-->"), ("<?", "?>")].first { rest.starts(with: $0.0.utf8) }
            guard let (start, end) = skipped else { break }
            guard let found = rest.dropFirst(start.utf8.count).firstRange(of: Array(end.utf8)) else { return false }
            rest = rest[found.upperBound...]
        }
        if rest.starts(with: "<!DOCTYPE svg".utf8) { return true }
        guard rest.starts(with: "<svg".utf8), let next = rest.dropFirst(4).first else { return false }
        return " \t\r\n>/:".utf8.contains(next)
    }

    private static func isWebM(_ bytes: ByteReader) -> Bool {
        (4..<64).contains { (try? bytes.u16(at: $0)) == 0x4282 && bytes.holds("webm", at: $0 + 3) }
    }

    /// The brand that decides in the `ftyp` box at the start of a file (ISO/IEC 14496-12, section 4.3).
    private static func brand(_ file: ByteReader) -> ImageFormat? {
        guard let length = try? file.u32(at: 0), length >= 16, let major = try? file.name(at: 8) else { return nil }
        if let format = brands[major] { return format }
        // The compatible brands follow the minor version.
        let compatible = stride(from: 16, to: min(length, file.available, 4096) - 3, by: 4).compactMap { offset in
            (try? file.name(at: offset)).flatMap { brands[$0] }
        }
        return compatible.first { $0 != .mp4 && $0 != .mov } ?? compatible.first
    }

    private static let brands: [String: ImageFormat] = [
        "avif": .avif, "avis": .avif,
        "heic": .heic, "heix": .heic, "heim": .heic, "heis": .heic,
        "hevc": .heic, "hevx": .heic, "hevm": .heic, "hevs": .heic,
        "mp41": .mp4, "mp42": .mp4, "isom": .mp4, "iso2": .mp4, "iso3": .mp4, "iso4": .mp4, "iso5": .mp4,
        "iso6": .mp4, "iso7": .mp4, "iso8": .mp4, "iso9": .mp4, "avc1": .mp4, "dash": .mp4, "M4V ": .mp4,
        "3gp4": .mp4, "3gp5": .mp4, "3gp6": .mp4, "3g2a": .mp4, "qt  ": .mov,
    ]
}
