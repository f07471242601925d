extension ImageInfo {
    /// AVIF and HEIC (ISO/IEC 23008-12; AV1 Image File Format 1.1). The size is that of the clean aperture (`clap`),
    /// because encoders pad pictures to whole blocks. The orientation in Exif is only informative here.
    mutating func readHEIF(_ file: ByteReader) throws(DipperError) -> PixelSize? {
        let isSequence = Self.sequenceBrands.contains(try file.name(at: 8))
        var wantsItem = true
        var itemSize: PixelSize?
        var track: MovieTrack?
        var boxes = BoxReader(file)
        do throws(DipperError) {
            while wantsItem || (isSequence && track == nil), let box = try boxes.next() {
                switch box.type {
                case "meta" where wantsItem:
                    wantsItem = false
                    do throws(DipperError) {
                        itemSize = try HEIFItem(box.content).read(&self)
                    } catch {
                        // A sequence can be displayed without the item.
                        guard isSequence else { throw error }
                    }
                case "moov" where track == nil && isSequence:
                    track = try MovieTrack.first("pict", in: box.content)
                default: break
                }
            }
        } catch {
            // The frames are only counted if their box has arrived.
            if itemSize == nil, track == nil { throw error }
        }
        if let track {
            frameCount = max(1, track.frameCount)
            loopCount = track.loopCount
            hasAlpha = hasAlpha || track.hasAuxiliaryTrack
        }
        return itemSize ?? track?.size
    }

    /// The major brands of files that are displayed as their track. Other files are displayed as their primary item.
    private static let sequenceBrands: Set<String> = ["avis", "msf1", "hevc", "hevx", "hevm", "hevs"]

    /// A film: the size and orientation of its first video track. Files not made for streaming have it at the end.
    mutating func readMP4(_ file: ByteReader) throws(DipperError) -> PixelSize? {
        let moov = try BoxReader.first("moov", in: file, else: ByteReader.incomplete)
        // A file with sound alone has no size, but is not broken.
        guard let track = try MovieTrack.first("vide", in: moov) else { return nil }
        orientation = track.orientation
        return track.size.isEmpty ? nil : track.size
    }
}

/// The primary item of a `meta` box (ISO/IEC 23008-12, section 6; ISO/IEC 14496-12, section 8.11).
struct HEIFItem {
    private var primary: Int?
    private var properties: ByteReader?
    private var associations: [ByteReader] = []
    private var references: ByteReader?

    init(_ meta: ByteReader) throws(DipperError) {
        // The content begins with a version and flags.
        var boxes = BoxReader(meta, from: 4)
        while let box = try boxes.next() {
            switch box.type {
            case "pitm":
                primary = try box.content.number(at: 4, box.content.u8(at: 0) == 0 ? 2 : 4)
            case "iref": references = box.content
            case "iprp":
                var parts = BoxReader(box.content)
                while let part = try parts.next() {
                    if part.type == "ipco" { properties = part.content }
                    // There may be one box for each combination of version and flags.
                    if part.type == "ipma", associations.count < 8 { associations.append(part.content) }
                }
            default: break
            }
        }
    }

    /// Reads the item's properties (ISO/IEC 23008-12, section 6.5), and returns the size, which is not empty.
    func read(_ info: inout ImageInfo) throws(DipperError) -> PixelSize {
        guard let primary, let properties else { throw ByteReader.broken }
        let own = try propertyNumbers(of: [primary])
        let auxiliary = try propertyNumbers(of: auxiliaries(of: primary))
        var size: PixelSize?
        var aperture: ByteReader?
        var quarterTurns: Int?
        var mirror: Int?
        var depth: Int?
        var codedDepth: Int?
        // The first property of a kind counts; of `av1C` and `hvcC`, the last.
        var boxes = BoxReader(properties)
        var number = 0
        while let box = try boxes.next() {
            number += 1
            let content = box.content
            if auxiliary.contains(number), box.type == "auxC", Self.isAlpha(content) { info.hasAlpha = true }
            guard own.contains(number) else { continue }
            switch box.type {
            case "ispe" where size == nil:
                size = PixelSize(width: try content.u32(at: 4), height: try content.u32(at: 8))
            case "irot" where quarterTurns == nil: quarterTurns = try content.u8(at: 0) & 3
            case "imir" where mirror == nil: mirror = try content.u8(at: 0) & 1
            case "pixi" where depth == nil: depth = try content.u8(at: 4) > 0 ? content.u8(at: 5) : nil
            case "av1C":
                let flags = try content.u8(at: 2)
                codedDepth = flags & 0x40 == 0 ? 8 : flags & 0x20 == 0 ? 10 : 12
            case "hvcC": codedDepth = try content.u8(at: 17) & 7 + 8
            case "clap" where aperture == nil: aperture = content
            // There may be two, of different kinds.
            case "colr":
                let kind = try content.name(at: 0)
                if kind == "prof" || kind == "rICC" { info.hasColorProfile = true }
            default: break
            }
        }
        guard let size else { throw ByteReader.broken }
        try size.checkNotEmpty()
        info.bitDepth = depth ?? codedDepth
        info.orientation = Image.Orientation(quarterTurns: quarterTurns ?? 0, mirror: mirror)
        return aperture.flatMap { Self.aperture($0, in: size) } ?? size
    }

    private func auxiliaries(of primary: Int) throws(DipperError) -> Set<Int> {
        guard let references else { return [] }
        var items: Set<Int> = []
        let width = try references.u8(at: 0) == 0 ? 2 : 4
        var boxes = BoxReader(references, from: 4)
        while items.count < 16, let box = try boxes.next() {
            guard box.type == "auxl" else { continue }
            for index in 0..<(try box.content.u16(at: width)) {
                if try box.content.number(at: width + 2 + index * width, width) == primary {
                    items.insert(try box.content.number(at: 0, width))
                }
            }
        }
        return items
    }

    /// The sizes of all items; of an item with several, the largest.
    func sizes() throws(DipperError) -> [Int: PixelSize] {
        guard let properties else { throw ByteReader.broken }
        var (extents, number): ([Int: PixelSize], Int) = ([:], 0)
        var boxes = BoxReader(properties)
        while let box = try boxes.next() {
            number += 1
            guard box.type == "ispe" else { continue }
            let size = PixelSize(width: try box.content.u32(at: 4), height: try box.content.u32(at: 8))
            _ = try size.byteCount()
            extents[number] = size
        }
        var sizes: [Int: PixelSize] = [:]
        try forEachProperty { item, number in
            guard let size = extents[number] else { return }
            if let other = sizes[item], other.width * other.height > size.width * size.height { return }
            sizes[item] = size
        }
        return sizes
    }

    /// The places of the items' properties, counted from 1.
    private func propertyNumbers(of items: Set<Int>) throws(DipperError) -> Set<Int> {
        var numbers: Set<Int> = []
        try forEachProperty { item, number in
            if items.contains(item) { numbers.insert(number) }
        }
        return numbers
    }

    private func forEachProperty(_ body: (_ item: Int, _ number: Int) -> Void) throws(DipperError) {
        for box in associations {
            let width = try box.u8(at: 0) < 1 ? 2 : 4
            let isLong = try box.u8(at: 3) & 1 != 0
            var offset = 8
            // Each iteration reads bytes, so the end of the box bounds the loop.
            for _ in 0..<(try box.u32(at: 4)) {
                let item = try box.number(at: offset, width)
                let count = try box.u8(at: offset + width)
                offset += width + 1
                for _ in 0..<count {
                    // The highest bit marks properties that a reader must support.
                    let number = try isLong ? box.u16(at: offset) & 0x7FFF : box.u8(at: offset) & 0x7F
                    offset += isLong ? 2 : 1
                    body(item, number)
                }
            }
        }
    }

    /// `nil` if the aperture does not consist of whole pixels inside the picture (ISO/IEC 14496-12, section 12.1.4).
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

extension Image.Orientation {
    /// First rotated anticlockwise, then mirrored (MIAF, ISO/IEC 23000-22, section 7.3.6.7): 0 exchanges top and
    /// bottom, 1 left and right.
    init(quarterTurns: Int, mirror: Int?) {
        let turned: [Image.Orientation] =
            switch mirror {
            case nil: [.up, .left, .down, .right]
            case 0: [.downMirrored, .leftMirrored, .upMirrored, .rightMirrored]
            default: [.upMirrored, .rightMirrored, .downMirrored, .leftMirrored]
            }
        self = turned[quarterTurns]
    }
}

/// A track of pictures or of a film in a `moov` box (ISO/IEC 14496-12, section 8).
struct MovieTrack {
    private(set) var size = PixelSize(width: 0, height: 0)
    private(set) var orientation = Image.Orientation.up
    private(set) var frameCount = 0
    /// 0 for endlessly, as browsers play a track without an edit list.
    private(set) var loopCount = 0
    /// An auxiliary track holds the transparency of another.
    private(set) var hasAuxiliaryTrack = false
    /// In units of the film's clock; `nil` if it is endless.
    private var duration: Int?
    private var handler: String = "none"

    /// The first track with a handler: `pict` for pictures, `vide` for a film. `nil` if there is none.
    static func first(_ handler: String, in moov: ByteReader) throws(DipperError) -> MovieTrack? {
        var found: MovieTrack?
        var hasAuxiliaryTrack = false
        var boxes = BoxReader(moov)
        while let box = try boxes.next() {
            guard box.type == "trak" else { continue }
            let track = try MovieTrack(box.content)
            if track.handler == handler, found == nil { found = track }
            if track.handler == "auxv" { hasAuxiliaryTrack = true }
        }
        found?.hasAuxiliaryTrack = hasAuxiliaryTrack
        return found
    }

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
            if part.type == "hdlr" { handler = try part.content.name(at: 8) }
            guard part.type == "minf", let table = try? BoxReader.first("stbl", in: part.content) else { continue }
            if let sizes = try? BoxReader.first("stsz", in: table) { frameCount = try sizes.u32(at: 8) }
        }
    }

    /// If the repeat flag is set, the edit repeats until the end of the track's duration.
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
