/// The header of a film: its first track's size. In files not made for streaming it comes last.
enum FilmHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .mp4)
        var boxes = BoxReader(file)
        while let box = try boxes.next() {
            guard box.type == "moov" else { continue }
            // Sound alone has no size, but is no broken file.
            guard let movie = try MovieHeader.read(box.content, handler: "vide") else { return info }
            info.orientation = movie.orientation
            if !movie.size.isEmpty { try info.setStoredSize(movie.size) }
            return info
        }
        throw ByteReader.incomplete
    }
}
