/// The orientation that cameras write (Exif 2.32, tag 0x0112).
enum ExifOrientation {
    /// Reads it; `nil` if there is none, or what there is means nothing.
    /// - Parameter exif: a TIFF structure, also after the six bytes `Exif` and two zeros that JPEG puts before it.
    static func read(_ exif: ByteReader) -> Orientation? {
        let start = exif.holds("Exif\0\0") ? 6 : 0
        guard let file = try? exif.part(from: start),
            let values = try? TIFFDirectory(file).values(),
            let value = values[.orientation]
        else { return nil }
        return Orientation(rawValue: value)
    }
}
