/// The properties of an item that the header tells of (ISO/IEC 23008-12, section 6.5).
struct HEIFProperties {
    /// Which of all are the item's, counted from 1.
    let own: Set<Int>
    /// Which are of the items that belong to it.
    let auxiliary: Set<Int>

    func read(_ container: ByteReader, _ info: inout ImageInfo) throws(DipperError) {
        var size: PixelSize?
        var aperture: PixelSize?
        var quarterTurns = 0
        var mirror: Mirror?
        var depth: Int?
        var codedDepth: Int?
        var boxes = BoxReader(container)
        var index = 0
        while let box = try boxes.next() {
            index += 1
            if auxiliary.contains(index), box.type == "auxC", Self.isAlpha(box.content) { info.hasAlpha = true }
            guard own.contains(index) else { continue }
            let content = box.content
            switch box.type {
            case "ispe": size = PixelSize(width: try content.u32(at: 4), height: try content.u32(at: 8))
            case "irot": quarterTurns = try content.u8(at: 0) & 3
            case "imir": mirror = try content.u8(at: 0) & 1 == 0 ? .topToBottom : .leftToRight
            case "pixi": depth = try content.u8(at: 4) > 0 ? content.u8(at: 5) : nil
            case "av1C":
                let flags = try content.u8(at: 2)
                codedDepth = flags & 0x40 == 0 ? 8 : flags & 0x20 == 0 ? 10 : 12
            case "hvcC": codedDepth = try content.u8(at: 17) & 7 + 8
            case "clap" where info.format == .heic: aperture = try Self.aperture(content)
            // There may be a second, of another kind.
            case "colr":
                let kind = try content.code(at: 0)
                info.hasColorProfile = info.hasColorProfile || kind == "prof" || kind == "rICC"
            default: break
            }
        }
        guard let size else { throw ByteReader.broken }
        info.bitDepth = depth ?? codedDepth
        info.orientation = Self.orientation(quarterTurns, mirror)
        if let aperture, aperture.width <= size.width, aperture.height <= size.height {
            try info.setStoredSize(aperture)
        } else {
            try info.setStoredSize(size)
        }
    }

    private enum Mirror {
        case topToBottom
        case leftToRight
    }

    /// Turned anticlockwise first, then mirrored: the order that MIAF (ISO/IEC 23000-22, section 7.3.6.7) asks for.
    private static func orientation(_ quarterTurns: Int, _ mirror: Mirror?) -> Orientation {
        switch (quarterTurns, mirror) {
        case (1, nil): .left
        case (2, nil): .down
        case (3, nil): .right
        case (0, .leftToRight), (2, .topToBottom): .upMirrored
        case (0, .topToBottom), (2, .leftToRight): .downMirrored
        case (1, .topToBottom), (3, .leftToRight): .leftMirrored
        case (1, .leftToRight), (3, .topToBottom): .rightMirrored
        default: .up
        }
    }

    /// The clean aperture's size, from fractions; `nil` if they are none (ISO/IEC 14496-12, section 12.1.4).
    private static func aperture(_ content: ByteReader) throws(DipperError) -> PixelSize? {
        let widthDivisor = try content.u32(at: 4)
        let heightDivisor = try content.u32(at: 12)
        guard widthDivisor > 0, heightDivisor > 0 else { return nil }
        let size = PixelSize(
            width: try content.u32(at: 0) / widthDivisor, height: try content.u32(at: 8) / heightDivisor)
        return size.isEmpty ? nil : size
    }

    private static func isAlpha(_ content: ByteReader) -> Bool {
        content.holds("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", at: 4)
            || content.holds("urn:mpeg:hevc:2015:auxid:1\0", at: 4)
    }
}
