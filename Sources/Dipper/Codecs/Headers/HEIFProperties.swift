/// The properties of an item that are read from the header (ISO/IEC 23008-12, section 6.5).
struct HEIFProperties {
    /// The indices of the item's properties, counted from 1.
    let own: Set<Int>
    /// The indices of the properties of its auxiliary items.
    let auxiliary: Set<Int>

    func read(_ container: ByteReader, _ info: inout ImageInfo) throws(DipperError) {
        var size: PixelSize?
        var aperture: ByteReader?
        var quarterTurns: Int?
        var mirror: Mirror?
        var depth: Int?
        var codedDepth: Int?
        // The first property of a kind counts; of `av1C` and `hvcC`, the last.
        var boxes = BoxReader(container)
        var index = 0
        while let box = try boxes.next() {
            index += 1
            if auxiliary.contains(index), box.type == "auxC", Self.isAlpha(box.content) { info.hasAlpha = true }
            guard own.contains(index) else { continue }
            let content = box.content
            switch box.type {
            case "ispe" where size == nil:
                size = PixelSize(width: try content.u32(at: 4), height: try content.u32(at: 8))
            case "irot" where quarterTurns == nil: quarterTurns = try content.u8(at: 0) & 3
            case "imir" where mirror == nil: mirror = try content.u8(at: 0) & 1 == 0 ? .topToBottom : .leftToRight
            case "pixi" where depth == nil: depth = try content.u8(at: 4) > 0 ? content.u8(at: 5) : nil
            case "av1C":
                let flags = try content.u8(at: 2)
                codedDepth = flags & 0x40 == 0 ? 8 : flags & 0x20 == 0 ? 10 : 12
            case "hvcC": codedDepth = try content.u8(at: 17) & 7 + 8
            case "clap" where aperture == nil: aperture = content
            // There may be two, of different kinds.
            case "colr":
                let kind = try content.code(at: 0)
                info.hasColorProfile = info.hasColorProfile || kind == "prof" || kind == "rICC"
            default: break
            }
        }
        guard let size else { throw ByteReader.broken }
        info.bitDepth = depth ?? codedDepth
        info.orientation = Self.orientation(quarterTurns ?? 0, mirror)
        try info.setStoredSize(aperture.flatMap { Self.aperture($0, in: size) } ?? size)
    }

    private enum Mirror {
        case topToBottom
        case leftToRight
    }

    /// Returns the orientation: first rotated anticlockwise, then mirrored, which is the order of MIAF (ISO/IEC
    /// 23000-22, section 7.3.6.7).
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

    /// Returns the size of the clean aperture; `nil` if it does not consist of whole pixels inside the picture (ISO/IEC
    /// 14496-12, section 12.1.4).
    private static func aperture(_ content: ByteReader, in size: PixelSize) -> PixelSize? {
        func length(at offset: Int, of whole: Int) throws(DipperError) -> Int? {
            let numerator = try content.i32(at: offset)
            let divisor = try content.i32(at: offset + 4)
            let shiftDivisor = try content.i32(at: offset + 20)
            guard numerator > 0, divisor > 0, shiftDivisor > 0, numerator % divisor == 0 else { return nil }
            let length = numerator / divisor
            // The offset of the aperture's centre from the picture's centre.
            let shift = Double(try content.i32(at: offset + 16)) / Double(shiftDivisor)
            let start = Double(whole) / 2 + shift - Double(length) / 2
            guard start >= 0, start == start.rounded(), start + Double(length) <= Double(whole) else { return nil }
            return length
        }
        guard let width = try? length(at: 0, of: size.width), let height = try? length(at: 8, of: size.height) else {
            return nil
        }
        return PixelSize(width: width, height: height)
    }

    private static func isAlpha(_ content: ByteReader) -> Bool {
        content.holds("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", at: 4)
            || content.holds("urn:mpeg:hevc:2015:auxid:1\0", at: 4)
    }
}
