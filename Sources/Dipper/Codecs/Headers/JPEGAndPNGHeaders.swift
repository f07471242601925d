import CFastPNG

extension ImageInfo {
    /// JPEG (ITU-T T.81, annex B): the segments before the first scan.
    mutating func readJPEG(_ file: ByteReader) throws(DipperError) -> PixelSize {
        let header = JPEGHeader(file.bytes)
        // Once the frame's header is known, the size does not wait for the other segments, which rarely matter.
        guard let frame = header.frame else { throw header.isComplete ? ByteReader.broken : ByteReader.incomplete }
        bitDepth = frame.bits
        isProgressive = frame.isProgressive
        for exif in header.exif { metadata.add(exif: exif) }
        orientation = metadata.orientation ?? .up
        if let xmp = header.xmp { metadata.add(xmp: xmp) }
        hasColorProfile = header.hasProfile
        return frame.size
    }

    /// PNG (W3C, third edition, section 11): the chunks before the first with pixels, and the frames behind them.
    mutating func readPNG(_ file: ByteReader) throws(DipperError) -> PixelSize {
        guard try file.u32(at: 8) == 13, try file.name(at: 12) == "IHDR" else { throw ByteReader.broken }
        let stored = PixelSize(width: try file.u32(at: 16), height: try file.u32(at: 20))
        let depth = try file.u8(at: 24)
        let colorType = try file.u8(at: 25)
        // With a palette, the depth in the file is that of the index.
        bitDepth = colorType == 3 ? 8 : depth
        hasAlpha = colorType & 4 != 0
        isProgressive = try file.u8(at: 28) == 1

        var chunks = PNGChunks()
        var xmp: ByteReader?
        while true {
            let (type, chunk) = try chunks.next(in: file)
            switch type {
            case "IDAT", "IEND":
                countFrames(of: file)
                if let xmp { metadata.add(xmp: xmp.bytes) }
                return stored
            case "eXIf":
                guard chunk.available == chunk.count else { throw ByteReader.incomplete }
                metadata.add(exif: chunk)
                orientation = metadata.orientation ?? .up
            case "iTXt" where chunk.holds("XML:com.adobe.xmp\0\0"): xmp = xmp ?? chunk
            case "tRNS": hasAlpha = true
            case "iCCP": hasColorProfile = true
            case "sRGB": isSRGB = true
            // Colours of video range, or with a matrix, are none of PNG.
            case "cICP" where chunk.count == 4 && (try? chunk.u16(at: 2)) == 1:
                codedColor = CodedColor(primaries: try chunk.u8(at: 0), transfer: try chunk.u8(at: 1))
            default: break
            }
        }
    }

    private mutating func countFrames(of file: ByteReader) {
        guard var animation = PNGAnimation(file) else { return }
        var (count, time, isStill) = (0, Duration.zero, true)
        while let frame = animation.next(in: file) {
            count += 1
            time += frame.duration
            isStill = frame.isStill
        }
        guard count > 1 || !isStill else { return }
        isAnimation = true
        if count > 1 { (frameCount, loopCount, loopDuration) = (count, animation.loopCount, time) }
    }
}

/// The chunks of a PNG file (W3C, third edition, section 5.3) behind its header.
struct PNGChunks {
    /// The place of the next chunk in the file, in bytes.
    private(set) var offset: Int
    private var last = 0

    init(at offset: Int = 33) {
        self.offset = offset
    }

    mutating func next(in file: ByteReader) throws(DipperError) -> (type: String, content: ByteReader) {
        let length = try file.u32(at: offset)
        let type = try file.name(at: offset + 4)
        guard length <= Int(Int32.max) else { throw ByteReader.broken }
        let content = try file.part(at: offset + 8, count: length)
        (last, offset) = (offset, offset + 12 + length)
        return (type, content)
    }

    /// Whether all of the last chunk is there, with the right checksum.
    func isSound(in file: ByteReader) -> Bool {
        guard let sum = try? file.u32(at: offset - 4) else { return false }
        let checked = UnsafeRawBufferPointer(rebasing: file.bytes[last + 4..<offset - 4])
        return fastpng_crc(0, checked.baseAddress?.assumingMemoryBound(to: UInt8.self), checked.count) == sum
    }
}
