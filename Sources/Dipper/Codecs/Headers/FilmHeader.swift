/// The header of a film: the size and orientation of its first video track. Files not made for streaming have it at the
/// end.
enum FilmHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .mp4)
        var boxes = BoxReader(file)
        while let box = try boxes.next() {
            guard box.type == "moov" else { continue }
            // A file with sound alone has no size, but is not broken.
            guard let movie = try MovieHeader.read(box.content, handler: "vide") else { return info }
            info.orientation = movie.orientation
            if !movie.size.isEmpty { try info.setStoredSize(movie.size) }
            return info
        }
        throw ByteReader.incomplete
    }
}
