/// The `ftyp` box at the start of an ISO base media file (ISO/IEC 14496-12, section 4.3).
enum FileTypeBox {
    /// Returns the format of a file by its brands: the major brand if it is known, or else a compatible brand, with
    /// pictures preferred to films.
    static func format(_ file: ByteReader) -> ImageFormat? {
        guard let length = try? file.u32(at: 0), length >= 16, let major = try? file.code(at: 8) else { return nil }
        if let format = formats[major] { return format }
        // The compatible brands follow the minor version. A box longer than the bytes available is read up to their
        // end.
        var isFilm = false
        for offset in stride(from: 16, to: min(length, file.available, 4096) - 3, by: 4) {
            guard let brand = try? file.code(at: offset), let format = formats[brand] else { continue }
            if format != .mp4 { return format }
            isFilm = true
        }
        return isFilm ? .mp4 : nil
    }

    private static let formats: [FourCC: ImageFormat] = [
        "avif": .avif, "avis": .avif,
        "heic": .heic, "heix": .heic, "heim": .heic, "heis": .heic,
        "hevc": .heic, "hevx": .heic, "hevm": .heic, "hevs": .heic,
        "mp41": .mp4, "mp42": .mp4, "isom": .mp4, "iso2": .mp4, "iso3": .mp4, "iso4": .mp4, "iso5": .mp4,
        "iso6": .mp4, "iso7": .mp4, "iso8": .mp4, "iso9": .mp4, "avc1": .mp4, "dash": .mp4, "M4V ": .mp4,
    ]
}
