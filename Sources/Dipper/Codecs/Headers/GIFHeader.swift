/// The header of GIF (GIF89a): the logical screen, and the number of frames in the bytes given. Pixels are skipped.
///
/// Some programs write a screen without pixels. Its size is then that of the first frame, including its offset.
enum GIFHeader {
    static func info(_ file: ByteReader) throws(DipperError) -> ImageInfo {
        var info = ImageInfo(format: .gif)
        info.bitDepth = 8
        let screen = PixelSize(width: try file.u16(at: 6, .little), height: try file.u16(at: 8, .little))
        let flags = try file.u8(at: 10)
        var walk = Walk(file: file, offset: 13 + colorTable(flags))
        do throws(DipperError) {
            try walk.run()
        } catch {
            // The end of the bytes, or an invalid block, ends the count of the frames.
            if screen.isEmpty, walk.firstFrameEnd == nil { throw error }
        }
        try info.setStoredSize(screen.isEmpty ? walk.firstFrameEnd ?? screen : screen)
        info.frameCount = max(1, walk.frameCount)
        info.loopCount = walk.loopCount
        info.hasAlpha = walk.hasTransparency
        info.isProgressive = walk.isInterlaced
        return info
    }

    /// Returns the length of a colour table, in bytes.
    private static func colorTable(_ flags: Int) -> Int {
        flags & 0x80 == 0 ? 0 : 3 << ((flags & 7) + 1)
    }

    private struct Walk {
        let file: ByteReader
        var offset: Int
        var frameCount = 0
        /// The right and bottom end of the first frame.
        var firstFrameEnd: PixelSize?
        var loopCount = 1
        var hasTransparency = false
        /// Whether the first frame is interlaced.
        var isInterlaced = false

        init(file: ByteReader, offset: Int) {
            self.file = file
            self.offset = offset
        }

        mutating func run() throws(DipperError) {
            while true {
                switch try file.u8(at: offset) {
                case 0x21: try readExtension()
                case 0x2C: try readFrame()
                default: return
                }
            }
        }

        private mutating func readFrame() throws(DipperError) {
            let flags = try file.u8(at: offset + 9)
            if frameCount == 0 {
                firstFrameEnd = PixelSize(
                    width: try file.u16(at: offset + 1, .little) + file.u16(at: offset + 5, .little),
                    height: try file.u16(at: offset + 3, .little) + file.u16(at: offset + 7, .little))
            }
            // The colour table is followed by the length of the first code and then by the pixels.
            offset += 10 + GIFHeader.colorTable(flags) + 1
            if frameCount == 0 { isInterlaced = flags & 0x40 != 0 }
            frameCount += 1
            try skipBlocks()
        }

        private mutating func readExtension() throws(DipperError) {
            let label = try file.u8(at: offset + 1)
            offset += 2
            switch label {
            case 0xF9 where frameCount == 0:
                let flags = try file.u8(at: offset + 1)
                hasTransparency = flags & 1 != 0
            case 0xFF:
                let isLoop = file.holds("NETSCAPE2.0", at: offset + 1) || file.holds("ANIMEXTS1.0", at: offset + 1)
                if isLoop, try file.u8(at: offset) == 11, try file.u8(at: offset + 12) >= 3,
                    try file.u8(at: offset + 13) & 7 == 1
                {
                    // The file states the number of repetitions after the first time.
                    let repetitions = try file.u16(at: offset + 14, .little)
                    loopCount = repetitions == 0 ? 0 : repetitions + 1
                }
            default: break
            }
            try skipBlocks()
        }

        /// Skips data blocks. Each begins with its length, and one of length zero is the last.
        private mutating func skipBlocks() throws(DipperError) {
            while true {
                let length = try file.u8(at: offset)
                offset += 1 + length
                if length == 0 { return }
            }
        }
    }
}
