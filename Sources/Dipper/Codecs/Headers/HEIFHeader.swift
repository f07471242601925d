/// The header of AVIF and HEIC (ISO/IEC 23008-12; AV1 Image File Format 1.1): the properties of the primary item, and
/// of a sequence the number of its frames.
///
/// The clean aperture (`clap`) is what is shown: encoders note sizes in it that are no multiples of their blocks. The
/// orientation of Exif is only a note here.
enum HEIFHeader {
    static func info(_ file: ByteReader, _ format: ImageFormat) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: format)
        let isSequence = Self.sequenceBrands.contains(try file.code(at: 8))
        var hasItem = false
        var isItemBroken = false
        var movie: MovieHeader?
        var boxes = BoxReader(file)
        do throws(DipperError) {
            while (!hasItem && !isItemBroken) || (isSequence && movie == nil), let box = try boxes.next() {
                switch box.type {
                case "meta" where !hasItem:
                    do throws(DipperError) {
                        try HEIFItem.read(box.content, &info)
                        hasItem = true
                    } catch {
                        // A sequence can do without.
                        guard isSequence else { throw error }
                        isItemBroken = true
                    }
                case "moov" where movie == nil && isSequence:
                    movie = try MovieHeader.read(box.content, handler: "pict")
                default: break
                }
            }
        } catch {
            // Frames are counted only where the bytes are there.
            if !hasItem, movie == nil { throw error }
        }
        if let movie {
            info.frameCount = max(1, movie.frameCount)
            info.loopCount = movie.loopCount
            info.hasAlpha = info.hasAlpha || movie.hasAuxiliaryTrack
            if !hasItem { try info.setStoredSize(movie.size) }
        }
        return info
    }

    /// Files whose first brand is one of these are shown as their track, others as their item.
    private static let sequenceBrands: Set<FourCC> = ["avis", "msf1", "hevc", "hevx", "hevm", "hevs"]
}
