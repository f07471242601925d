#if GIF
    import CGIF
    import Foundation

    /// A decoder for still and animated GIF 87a and 89a, by giflib.
    ///
    /// ```swift
    /// if let frames = try GIFDecoder().frames(of: bytes, DecodeOptions()) {
    ///     while let frame = try frames.next() { print(frame.image.size, frame.duration) }
    /// }
    /// ```
    public struct GIFDecoder: ImageDecoder {
        /// The format ``ImageFormat/gif``.
        public let format = ImageFormat.gif

        /// Creates a decoder.
        public init() {}

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(FileFrames(GIFFrames(data, options), options), of: data)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            try FileFrames(GIFFrames(data, options), options).ifAnimated
        }
    }

    private final class GIFFrames: FrameReader {
        let frameCount: Int
        let loopCount: Int
        private let data: Data
        private let options: DecodeOptions
        private let canvas: GIFCanvas
        private var reader: GIFReader
        private var line: [UInt8] = []
        private var isFirst = true
        private var isCutOff = false

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            try options.check(size, frames: info.frameCount)
            // The canvas, and the picture that is made from it.
            try options.limits.checkMemory(size, bytesPerPixel: 8)
            (frameCount, loopCount) = (info.frameCount, info.loopCount)
            self.data = data
            self.options = options
            reader = try GIFReader(data)
            canvas = try GIFCanvas(size)
        }

        func restart() throws(DipperError) {
            reader = try GIFReader(data)
            canvas.clear()
            (isFirst, isCutOff) = (true, false)
        }

        func read() throws(DipperError) -> AnimationFrame? {
            guard !isCutOff, let frame = try reader.nextFrame() else { return nil }
            try options.limits.check(PixelSize(width: max(1, frame.width), height: max(1, frame.height)))
            do throws(DipperError) {
                try draw(frame)
            } catch {
                guard error == .undecodable, isFirst, options.allowsPartial else { throw error }
                isCutOff = true
            }
            isFirst = false
            let image = try RowWriter.image(
                of: canvas.pixels.base, canvas.size, picture: canvas.size, alpha: .premultiplied, options)
            return AnimationFrame(image: image, duration: frame.duration)
        }

        private func draw(_ frame: GIFFrame) throws(DipperError) {
            let visible = try canvas.begin(frame)
            // giflib has already read past the end of a frame if all of its rows were read.
            let areAllRead = try visible.isEmpty ? false : drawLines(of: frame, visible)
            if !areAllRead { try reader.skipPixels() }
        }

        /// Returns `false` if the data ends early or the last rows are below the canvas.
        private func drawLines(of frame: GIFFrame, _ visible: PixelSize) throws(DipperError) -> Bool {
            if line.count != frame.width { line = [UInt8](repeating: 0, count: frame.width) }
            let lastRow = frame.isInterlaced ? frame.height : visible.height
            var untilCheck = DecodeOptions.rowsAtATime
            for (start, step) in frame.rows {
                for row in stride(from: start, to: lastRow, by: step) {
                    guard try reader.readLine(into: &line) else { return false }
                    if row < visible.height { canvas.draw(line, count: visible.width, row: row, of: frame) }
                    untilCheck -= 1
                    if untilCheck == 0 {
                        try options.checkCancelled()
                        untilCheck = DecodeOptions.rowsAtATime
                    }
                }
            }
            return lastRow == frame.height
        }
    }

    /// The logical screen of a GIF, transparent at first. Parts of a frame outside are cropped. Disposal to the
    /// background makes the area transparent, whatever the background colour, as browsers do.
    private final class GIFCanvas {
        let pixels: PixelBuffer
        private var last: (frame: GIFFrame, visible: PixelSize)?
        /// The pixels under the last frame, if its disposal restores them.
        private var covered: PixelScratch?

        init(_ size: PixelSize) throws(DipperError) {
            pixels = try PixelBuffer(size)
            pixels.clear()
        }

        var size: PixelSize { pixels.size }

        func clear() {
            pixels.clear()
            last = nil
        }

        /// Disposes of the previous frame. Returns the columns and rows of the next one that are on the canvas.
        func begin(_ frame: GIFFrame) throws(DipperError) -> PixelSize {
            dispose()
            let visible = PixelSize(
                width: max(0, min(frame.width, size.width - frame.left)),
                height: max(0, min(frame.height, size.height - frame.top)))
            if frame.disposal == DISPOSE_PREVIOUS {
                let memory = try PixelScratch(byteCount: visible.width * visible.height * 4)
                for y in 0..<visible.height {
                    (memory.base + y * visible.width * 4).copyMemory(
                        from: row(y, of: frame), byteCount: visible.width * 4)
                }
                covered = memory
            }
            last = (frame, visible)
            return visible
        }

        func draw(_ line: [UInt8], count: Int, row: Int, of frame: GIFFrame) {
            let target = self.row(row, of: frame)
            line.withUnsafeBufferPointer { line in
                frame.pixels.withUnsafeBufferPointer { colors in
                    for x in 0..<count {
                        let color = colors[Int(line[x])]
                        if color != 0 { target[x] = color }
                    }
                }
            }
        }

        /// The first pixel of a frame's row, which may be beyond the right side of the canvas.
        private func row(_ y: Int, of frame: GIFFrame) -> UnsafeMutablePointer<UInt32> {
            pixels.row(frame.top + y).assumingMemoryBound(to: UInt32.self) + frame.left
        }

        private func dispose() {
            guard let (frame, visible) = last else { return }
            defer { (last, covered) = (nil, nil) }
            for y in 0..<visible.height {
                let row = row(y, of: frame)
                switch frame.disposal {
                case DISPOSE_BACKGROUND:
                    // mutant PictureTests: `count: visible.width)` => `count: 0)`
                    row.update(repeating: 0, count: visible.width)
                case DISPOSE_PREVIOUS:
                    guard let covered else { return }
                    UnsafeMutableRawPointer(row).copyMemory(
                        from: covered.base + y * visible.width * 4, byteCount: visible.width * 4)
                default: return
                }
            }
        }
    }

    /// Reads a GIF's records and holds only the current frame. Owns giflib's reader.
    private final class GIFReader {
        private let input: GIFInput
        private let file: UnsafeMutablePointer<GifFileType>

        init(_ data: Data) throws(DipperError) {
            input = GIFInput(data)
            var error: Int32 = 0
            let opened = DGifOpen(
                Unmanaged.passUnretained(input).toOpaque(),
                { file, buffer, count in
                    guard let file, let buffer, let user = file.pointee.UserData else { return 0 }
                    return Unmanaged<GIFInput>.fromOpaque(user).takeUnretainedValue().read(into: buffer, count)
                }, &error)
            guard let opened else { throw Self.error(error) }
            file = opened
        }

        deinit {
            DGifCloseFile(file, nil)
        }

        func nextFrame() throws(DipperError) -> GIFFrame? {
            var control = GraphicsControlBlock(
                DisposalMode: DISPOSAL_UNSPECIFIED, UserInputFlag: false, DelayTime: 0, TransparentColor: -1)
            while true {
                var record = UNDEFINED_RECORD_TYPE
                guard DGifGetRecordType(file, &record) == GIF_OK else { throw lastError }
                switch record {
                case IMAGE_DESC_RECORD_TYPE:
                    // DGifGetImageDesc would keep a record of every frame.
                    guard DGifGetImageHeader(file) == GIF_OK else { throw lastError }
                    return GIFFrame(file.pointee, control)
                case EXTENSION_RECORD_TYPE:
                    try readExtension(&control)
                case TERMINATE_RECORD_TYPE:
                    return nil
                default:
                    throw .undecodable.with(detail: "GIF: unknown record")
                }
            }
        }

        private func readExtension(_ control: inout GraphicsControlBlock) throws(DipperError) {
            var code: Int32 = 0
            var block: UnsafeMutablePointer<GifByteType>?
            guard DGifGetExtension(file, &code, &block) == GIF_OK else { throw lastError }
            if code == GRAPHICS_EXT_FUNC_CODE, let block {
                // A block of another length is ignored and leaves the control data as they were.
                DGifExtensionToGCB(Int(block[0]), block + 1, &control)
            }
            while block != nil {
                guard DGifGetExtensionNext(file, &block) == GIF_OK else { throw lastError }
            }
        }

        /// Returns `false` if the file declares the end of the pixels here. Browsers display such frames.
        func readLine(into line: inout [UInt8]) throws(DipperError) -> Bool {
            if DGifGetLine(file, &line, Int32(line.count)) == GIF_OK { return true }
            guard file.pointee.Error == D_GIF_ERR_EOF_TOO_SOON else { throw lastError }
            return false
        }

        func skipPixels() throws(DipperError) {
            var block: UnsafeMutablePointer<GifByteType>?
            repeat {
                guard DGifGetCodeNext(file, &block) == GIF_OK else { throw lastError }
            } while block != nil
        }

        private var lastError: DipperError { Self.error(file.pointee.Error) }

        private static func error(_ code: Int32) -> DipperError {
            .undecodable.with(detail: GifErrorString(code).map { "GIF: " + String(cString: $0) } ?? "GIF")
        }
    }

    private final class GIFInput {
        private let data: Data
        private var index: Data.Index

        init(_ data: Data) {
            self.data = data
            index = data.startIndex
        }

        func read(into buffer: UnsafeMutablePointer<GifByteType>, _ count: Int32) -> Int32 {
            let end = min(data.endIndex, index + max(0, Int(count)))
            data.copyBytes(to: buffer, from: index..<end)
            defer { index = end }
            return Int32(end - index)
        }
    }

    private struct GIFFrame {
        let left: Int
        let top: Int
        let width: Int
        let height: Int
        let isInterlaced: Bool
        /// The treatment of the frame's area before the next frame is drawn (GIF 89a, 23), as in giflib.
        let disposal: Int32
        let duration: Duration
        /// The pixel for each palette index, in the byte order of memory; 0 leaves the canvas as it is.
        let pixels: [UInt32]

        init(_ file: GifFileType, _ control: GraphicsControlBlock) {
            let image = file.Image
            left = Int(image.Left)
            top = Int(image.Top)
            width = Int(image.Width)
            height = Int(image.Height)
            isInterlaced = image.Interlace
            disposal = control.DisposalMode
            duration = .milliseconds(10 * Int(control.DelayTime))
            pixels = Self.pixels(image.ColorMap ?? file.SColorMap, transparent: Int(control.TransparentColor))
        }

        /// Indices beyond the palette are transparent, as in browsers. Without a palette the indices are greys.
        private static func pixels(_ map: UnsafeMutablePointer<ColorMapObject>?, transparent: Int) -> [UInt32] {
            var pixels = [UInt32](repeating: 0, count: 256)
            if let map, let colors = map.pointee.Colors {
                for index in 0..<min(256, Int(map.pointee.ColorCount)) {
                    let color = colors[index]
                    pixels[index] = pixel(color.Red, color.Green, color.Blue)
                }
            } else {
                for index in 0..<256 { pixels[index] = pixel(UInt8(index), UInt8(index), UInt8(index)) }
            }
            if pixels.indices.contains(transparent) { pixels[transparent] = 0 }
            return pixels
        }

        private static func pixel(_ red: UInt8, _ green: UInt8, _ blue: UInt8) -> UInt32 {
            UInt32(littleEndian: UInt32(red) | UInt32(green) << 8 | UInt32(blue) << 16 | 0xFF00_0000)
        }

        /// The order in which rows are stored (GIF 89a, appendix E).
        var rows: [(start: Int, step: Int)] {
            isInterlaced ? [(0, 8), (4, 8), (2, 4), (1, 2)] : [(0, 1)]
        }
    }
#endif
