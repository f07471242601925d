/// The header of TIFF (TIFF 6.0): its first directory, which may be anywhere in the file.
enum TIFFHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .tiff)
        // BigTIFF has offsets of 64 bits, so its size is not read.
        if file.holds("II+") || file.holds("MM\0+") { return info }
        let values = try TIFFDirectory(file).values()
        guard let width = values[.width], let height = values[.height] else { throw ByteReader.broken }
        info.orientation = values[.orientation].flatMap(Orientation.init) ?? .up
        info.bitDepth = values[.bitsPerSample] ?? 1
        // 1 is premultiplied alpha, 2 is straight alpha.
        info.hasAlpha = values[.extraSamples].map { $0 == 1 || $0 == 2 } ?? false
        info.hasColorProfile = values[.colorProfile] != nil
        try info.setStoredSize(PixelSize(width: width, height: height))
        return info
    }
}
