/// The orientation in Exif data (Exif 2.32, tag 0x0112).
enum ExifOrientation {
    /// Reads the orientation; returns `nil` if there is none or its value is invalid.
    /// - Parameter exif: a TIFF structure, with or without the six bytes `Exif\0\0` that JPEG puts before it.
    static func read(_ exif: ByteReader) -> Orientation? {
        let start = exif.holds("Exif\0\0") ? 6 : 0
        guard let file = try? exif.part(from: start),
            let values = try? TIFFDirectory(file).values(),
            let value = values[.orientation]
        else { return nil }
        return Orientation(rawValue: value)
    }
}
