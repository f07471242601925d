#if GIF
    import CGIF
    import Foundation

    /// A writer of one GIF file. It owns giflib's writer.
    final class GIFWriter {
        private let output = GIFOutput()
        private var file: UnsafeMutablePointer<GifFileType>?
        private let size: PixelSize

        /// Creates a writer and writes the header.
        /// - Parameter loopCount: the number of times the animation plays; 0 for endlessly.
        init(_ size: PixelSize, loopCount: Int) throws(DipperError) {
            self.size = size
            guard size.width <= 0xFFFF, size.height <= 0xFFFF else {
                throw .unencodable.with(detail: "GIF: \(size) pixels")
            }
            guard (0...0x10000).contains(loopCount) else {
                throw .unencodable.with(detail: "GIF: shown \(loopCount) times")
            }
            var error: Int32 = 0
            file = EGifOpen(
                Unmanaged.passUnretained(output).toOpaque(),
                { file, bytes, count in
                    guard let file, let bytes, let user = file.pointee.UserData else { return 0 }
                    let output = Unmanaged<GIFOutput>.fromOpaque(user).takeUnretainedValue()
                    output.data.append(bytes, count: Int(count))
                    return count
                }, &error)
            guard let file else { throw .unencodable.with(detail: "GIF: no memory") }
            EGifSetGifVersion(file, true)
            try check(EGifPutScreenDesc(file, Int32(size.width), Int32(size.height), 8, 0, nil))
            if loopCount != 1 { try putRepetitions(max(0, loopCount - 1), to: file) }
        }

        deinit {
            if let file { EGifCloseFile(file, nil) }
        }

        /// Adds a frame.
        /// - Parameter duration: the time for which it is displayed; `nil` for a still picture.
        func add(_ pixels: IndexedPixels, duration: Duration?) throws(DipperError) {
            guard let file else { throw Self.broken }
            if duration != nil || pixels.transparent != nil { try putControl(pixels, duration, to: file) }
            // giflib copies the palette.
            guard let map = GifMakeMapObject(Int32(pixels.palette.count), pixels.palette) else { throw Self.broken }
            defer { GifFreeMapObject(map) }
            try check(EGifPutImageDesc(file, 0, 0, Int32(size.width), Int32(size.height), false, map))
            var line = [UInt8](repeating: 0, count: size.width)
            for y in 0..<size.height {
                // giflib may change the row that it is given.
                for x in 0..<size.width { line[x] = pixels.indices[y * size.width + x] }
                try check(EGifPutLine(file, &line, Int32(size.width)))
            }
        }

        /// Ends the file and returns its bytes.
        func finish() throws(DipperError) -> Data {
            guard let file else { throw Self.broken }
            self.file = nil
            try check(EGifCloseFile(file, nil))
            return output.data
        }

        /// Writes the Netscape extension as browsers read it: the number of repetitions, 0 for endlessly.
        private func putRepetitions(_ count: Int, to file: UnsafeMutablePointer<GifFileType>) throws(DipperError) {
            try check(EGifPutExtensionLeader(file, APPLICATION_EXT_FUNC_CODE))
            try check(EGifPutExtensionBlock(file, 11, Array("NETSCAPE2.0".utf8)))
            try check(EGifPutExtensionBlock(file, 3, [1, UInt8(count & 0xFF), UInt8(count >> 8)]))
            try check(EGifPutExtensionTrailer(file))
        }

        private func putControl(
            _ pixels: IndexedPixels, _ duration: Duration?, to file: UnsafeMutablePointer<GifFileType>
        ) throws(DipperError) {
            let hundredths = ((duration ?? .zero) / .milliseconds(10)).rounded()
            // Every frame covers the whole canvas; the previous frame must not show through its transparent pixels.
            let disposal = duration == nil ? DISPOSAL_UNSPECIFIED : DISPOSE_BACKGROUND
            var control = GraphicsControlBlock(
                DisposalMode: disposal, UserInputFlag: false, DelayTime: Int32(min(0xFFFF, max(0, hundredths))),
                TransparentColor: pixels.transparent.map(Int32.init) ?? NO_TRANSPARENT_COLOR)
            var bytes = [UInt8](repeating: 0, count: 4)
            EGifGCBToExtension(&control, &bytes)
            try check(EGifPutExtension(file, GRAPHICS_EXT_FUNC_CODE, 4, bytes))
        }

        private func check(_ result: Int32) throws(DipperError) {
            guard result == GIF_OK else { throw Self.broken }
        }

        private static let broken = DipperError.unencodable.with(detail: "GIF: giflib failed")
    }

    /// The bytes that giflib has written.
    private final class GIFOutput {
        var data = Data()
    }
#endif
