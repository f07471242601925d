/// The header of AVIF and HEIC (ISO/IEC 23008-12; AV1 Image File Format 1.1): the properties of the primary item and,
/// for a sequence, the number of frames.
///
/// The size is that of the clean aperture (`clap`): encoders use it for sizes that are not multiples of their blocks.
/// The orientation in Exif is ignored, because it is only informative in these formats.
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
                        // A sequence can be displayed without the item.
                        guard isSequence else { throw error }
                        isItemBroken = true
                    }
                case "moov" where movie == nil && isSequence:
                    movie = try MovieHeader.read(box.content, handler: "pict")
                default: break
                }
            }
        } catch {
            // The frames are only counted if their box has arrived.
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

    /// The major brands of files that are displayed as their track. Other files are displayed as their primary item.
    private static let sequenceBrands: Set<FourCC> = ["avis", "msf1", "hevc", "hevx", "hevm", "hevs"]
}
