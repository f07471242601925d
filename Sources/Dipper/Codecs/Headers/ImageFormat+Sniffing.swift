import Foundation

extension ImageFormat {
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
    /// | mp4 | `ftyp`: `mp41`, `mp42`, `isom`, `iso2`…`iso9`, `avc1`, `dash`, `M4V ` (ISO/IEC 14496-12, annex E) |
    /// | tiff | `II` or `MM`, then 42, or 43 for BigTIFF (TIFF 6.0, section 2) |
    /// | bmp | `BM`, and at byte 14 the length of a known header |
    /// | ico | `00 00 01 00`, and a plausible directory |
    /// | jxl | `FF 0A`, or the box `JXL ` with `0D 0A 87 0A` (ISO/IEC 18181-2) |
    /// | svg | `<svg` or `<!DOCTYPE svg`, after white space, processing instructions and comments |
    /// | pdf | `%PDF-` (ISO 32000, section 7.5.2) |
    /// | webm | `1A 45 DF A3` with the document type `webm` (RFC 8794, section 11.2) |
    ///
    /// The codes after `ftyp` are brands of that box. Its major brand decides if it is one of these. Otherwise, as with
    /// `mif1` and `msf1`, the first compatible brand of a picture decides, or else one of a film.
    ///
    /// ```swift
    /// if let format = ImageFormat(sniffing: bytes), !CodecRegistry.standard.readable.contains(format) {
    ///     print("no decoder for \(format)")
    /// }
    /// ```
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
        case 0x0000_000C where bytes.holds("JXL \r\n", at: 4):
            return (try? bytes.u16(at: 10)) == 0x870A ? .jpegXL : nil
        case 0x0000_0100: return isIcon(bytes) ? .ico : nil
        case 0x1A45_DFA3: return isWebM(bytes) ? .webm : nil
        default: break
        }
        if bytes.holds("GIF87a") || bytes.holds("GIF89a") { return .gif }
        // mutant ImageFormat: `", at: 8) { ret` => `", at: 9) { ret`
        if bytes.holds("RIFF"), bytes.holds("WEBP", at: 8) { return .webp }
        if bytes.holds("ftyp", at: 4) { return FileTypeBox.format(bytes) }
        if bytes.holds("%PDF-") { return .pdf }
        if bytes.holds("BM") { return isBitmap(bytes) ? .bmp : nil }
        return SVGStart.matches(bytes) ? .svg : nil
    }

    /// Returns whether a known header follows, because many texts begin with the same two letters.
    private static func isBitmap(_ bytes: ByteReader) -> Bool {
        guard let length = try? bytes.u32(at: 14, .little) else { return false }
        return [12, 16, 40, 52, 56, 64, 108, 124].contains(length)
    }

    /// Returns whether the directory has an entry whose reserved byte is zero and whose picture follows the directory.
    private static func isIcon(_ bytes: ByteReader) -> Bool {
        guard let count = try? bytes.u16(at: 4, .little), count > 0, (try? bytes.u8(at: 9)) == 0,
            let offset = try? bytes.u32(at: 18, .little)
        else { return false }
        return offset >= 6 + count * 16
    }

    /// Returns whether the document type, one of the first elements of the header, is `webm`.
    private static func isWebM(_ bytes: ByteReader) -> Bool {
        (4..<64).contains { (try? bytes.u16(at: $0)) == 0x4282 && bytes.holds("webm", at: $0 + 3) }
    }
}
