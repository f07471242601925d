/// The properties of the first picture or video track in a `moov` box (ISO/IEC 14496-12, section 8).
struct MovieHeader {
    /// The stored size; empty if the track states none.
    let size: PixelSize
    let orientation: Orientation
    let frameCount: Int
    /// The number of times the track plays; 0 for endlessly.
    let loopCount: Int
    /// Whether there is an auxiliary track, which holds the transparency of another.
    let hasAuxiliaryTrack: Bool

    /// Reads the properties of the first track with a handler.
    /// - Parameter handler: `pict` for pictures, `vide` for a film.
    /// - Returns: `nil` if there is no such track.
    static func read(_ moov: ByteReader, handler: FourCC) throws(DipperError) -> MovieHeader? {
        var track: Track?
        var hasAuxiliaryTrack = false
        var boxes = BoxReader(moov)
        while let box = try boxes.next() {
            guard box.type == "trak" else { continue }
            let next = try Track(box.content)
            if next.handler == handler, track == nil { track = next }
            if next.handler == "auxv" { hasAuxiliaryTrack = true }
        }
        guard let track else { return nil }
        return MovieHeader(
            size: track.size, orientation: track.orientation, frameCount: track.frameCount,
            loopCount: track.loopCount, hasAuxiliaryTrack: hasAuxiliaryTrack)
    }

    private struct Track {
        var size = PixelSize(width: 0, height: 0)
        var orientation = Orientation.up
        /// The duration in units of the film's clock; `nil` if it is endless.
        var duration: Int?
        var handler: FourCC = "none"
        var frameCount = 0
        /// The number of times the track plays. Browsers play a track without an edit list endlessly.
        var loopCount = 0

        init(_ trak: ByteReader) throws(DipperError) {
            var edits: ByteReader?
            var boxes = BoxReader(trak)
            while let box = try boxes.next() {
                switch box.type {
                case "tkhd": try readHeader(box.content)
                case "edts": edits = try? BoxReader.first("elst", in: box.content)
                case "mdia": try readMedia(box.content)
                default: break
                }
            }
            if let edits { try readEdits(edits) }
        }

        private mutating func readHeader(_ box: ByteReader) throws(DipperError) {
            let isLong = try box.u8(at: 0) == 1
            let length = try isLong ? box.u64(at: 28) : box.u32(at: 20)
            duration = length == (isLong ? Int.max : Int(UInt32.max)) ? nil : length
            let matrix = isLong ? 52 : 40
            let a = try box.i32(at: matrix)
            let b = try box.i32(at: matrix + 4)
            let c = try box.i32(at: matrix + 12)
            let d = try box.i32(at: matrix + 16)
            orientation =
                switch (a.signum(), b.signum(), c.signum(), d.signum()) {
                case (0, 1, -1, 0): .right
                case (-1, 0, 0, -1): .down
                case (0, -1, 1, 0): .left
                default: .up
                }
            // Fixed-point numbers with sixteen fractional bits.
            size = PixelSize(width: try box.u32(at: matrix + 36) >> 16, height: try box.u32(at: matrix + 40) >> 16)
        }

        private mutating func readMedia(_ box: ByteReader) throws(DipperError) {
            var boxes = BoxReader(box)
            while let part = try boxes.next() {
                if part.type == "hdlr" { handler = try part.content.code(at: 8) }
                guard part.type == "minf", let table = try? BoxReader.first("stbl", in: part.content) else { continue }
                if let sizes = try? BoxReader.first("stsz", in: table) { frameCount = try sizes.u32(at: 8) }
            }
        }

        /// Reads the edit list. If its repeat flag is set, the edit repeats until the end of the track's duration.
        private mutating func readEdits(_ box: ByteReader) throws(DipperError) {
            guard try box.u8(at: 3) & 1 != 0 else {
                loopCount = 1
                return
            }
            let edit = try box.u8(at: 0) == 1 ? box.u64(at: 8) : box.u32(at: 8)
            guard let duration, edit > 0 else { return }
            let (count, rest) = duration.quotientAndRemainder(dividingBy: edit)
            loopCount = max(1, rest == 0 ? count : count + 1)
        }
    }
}

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
