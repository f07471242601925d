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
            return try picture(GIFFrames(data, options), of: data, options)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            let frames = try GIFFrames(data, options)
            return frames.frameCount > 1 ? frames : nil
        }
    }

    /// Each frame is the canvas as it looks when the frame is displayed. Parts of a frame outside the logical screen
    /// are cropped. The canvas is transparent at first. Disposal to the background makes the area transparent again,
    /// whatever the background colour, as browsers do.
    private final class GIFFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let data: Data
        private let options: DecodeOptions
        private let canvas: GIFCanvas
        private var reader: GIFReader
        private var line = [UInt8]()
        private var shown = 0
        private var isAtEnd = false

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            self.data = data
            self.options = options
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            (frameCount, loopCount) = options.firstFrameOnly ? (1, 1) : (info.frameCount, info.loopCount)
            try options.limits.check(size, frames: frameCount)
            // The canvas, and the picture that is made from it.
            try options.limits.checkMemory(PixelSize(width: size.width, height: 2 * size.height))
            reader = try GIFReader(data)
            canvas = try GIFCanvas(size)
        }

        func rewind() throws(DipperError) {
            reader = try GIFReader(data)
            canvas.clear()
            shown = 0
            isAtEnd = false
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd else { return nil }
            // Reading goes on only after a complete frame, whatever happens before.
            isAtEnd = true
            guard let duration = try drawNext() else { return nil }
            let image = try RowWriter.image(
                of: canvas.canvas, picture: canvas.size, alpha: .premultiplied, options)
            shown += 1
            return AnimationFrame(image: image, duration: duration)
        }

        /// Returns how long the frame is displayed; `nil` if there is no frame, or it is broken and not the first.
        private func drawNext() throws(DipperError) -> Duration? {
            do throws(DipperError) {
                guard let frame = try reader.nextFrame() else { return nil }
                try options.limits.check(PixelSize(width: max(1, frame.width), height: max(1, frame.height)))
                let isComplete = try draw(frame)
                isAtEnd = !isComplete
                return isComplete || shown == 0 ? frame.duration : nil
            } catch {
                // Data after a broken place cannot be told from noise; frames before it are good.
                if error == .undecodable, shown > 0 { return nil }
                throw error
            }
        }

        /// Returns `false` if the first frame is broken or ends too early, and the options allow a partial picture.
        private func draw(_ frame: GIFFrame) throws(DipperError) -> Bool {
            let visible = canvas.begin(frame)
            do throws(DipperError) {
                // giflib has already read past the end of a frame if all of its rows were read.
                let areAllRead = visible.isEmpty ? false : try drawLines(of: frame, visible)
                if !areAllRead { try reader.skipPixels() }
                return true
            } catch {
                guard error == .undecodable, shown == 0, options.allowsPartial else { throw error }
                return false
            }
        }

        /// Returns whether all rows were read. They are not if the data ends early or the last rows are below the
        /// canvas.
        private func drawLines(of frame: GIFFrame, _ visible: PixelSize) throws(DipperError) -> Bool {
            if line.count != frame.width { line = [UInt8](repeating: 0, count: frame.width) }
            let lastRow = frame.isInterlaced ? frame.height : visible.height
            var untilCheck = RowWriter.rowsAtATime
            for (start, step) in frame.rows {
                for row in stride(from: start, to: lastRow, by: step) {
                    guard try reader.readLine(into: &line) else { return false }
                    if row < visible.height { canvas.draw(line, count: visible.width, row: row, of: frame) }
                    untilCheck -= 1
                    if untilCheck == 0 {
                        try options.checkCancelled()
                        untilCheck = RowWriter.rowsAtATime
                    }
                }
            }
            return lastRow == frame.height
        }
    }

    /// The logical screen of a GIF, on which its frames are drawn one after the other.
    private final class GIFCanvas {
        let size: PixelSize
        private let pixels: PixelBuffer
        /// Applied before the next frame is drawn.
        private var pending: (area: Area, disposal: GIFFrame.Disposal)?
        /// The pixels under the last frame, if its disposal restores them.
        private var saved = [UInt32]()

        private struct Area {
            var left: Int
            var top: Int
            var width: Int
            var height: Int
        }

        init(_ size: PixelSize) throws(DipperError) {
            self.size = size
            pixels = try PixelBuffer(size)
            pixels.clear()
        }

        func clear() {
            pixels.clear()
            pending = nil
        }

        var canvas: Canvas { Canvas(base: pixels.base, size: size, rowStride: pixels.rowStride) }

        /// Disposes of the previous frame. Returns the number of columns and rows of the next one that are on the
        /// canvas.
        func begin(_ frame: GIFFrame) -> PixelSize {
            dispose()
            let area = Area(
                left: frame.left, top: frame.top,
                width: max(0, min(frame.width, size.width - frame.left)),
                height: max(0, min(frame.height, size.height - frame.top)))
            if frame.disposal == .restore { save(area) }
            pending = (area, frame.disposal)
            return PixelSize(width: area.width, height: area.height)
        }

        func draw(_ line: [UInt8], count: Int, row: Int, of frame: GIFFrame) {
            let target = self.row(frame.top + row) + frame.left
            line.withUnsafeBufferPointer { line in
                frame.pixels.withUnsafeBufferPointer { colors in
                    for x in 0..<count {
                        let color = colors[Int(line[x])]
                        if color != 0 { target[x] = color }
                    }
                }
            }
        }

        private func row(_ y: Int) -> UnsafeMutablePointer<UInt32> {
            pixels.row(y).assumingMemoryBound(to: UInt32.self)
        }

        private func dispose() {
            guard let (area, disposal) = pending else { return }
            pending = nil
            switch disposal {
            case .keep:
                return
            case .clear:
                for y in area.top..<area.top + area.height {
                    // mutant PictureTests: `count: area.width)` => `count: 0)`
                    (row(y) + area.left).update(repeating: 0, count: area.width)
                }
            case .restore:
                saved.withUnsafeBufferPointer { saved in
                    guard let base = saved.baseAddress else { return }
                    for y in 0..<area.height {
                        (row(area.top + y) + area.left).update(from: base + y * area.width, count: area.width)
                    }
                }
            }
        }

        private func save(_ area: Area) {
            saved.removeAll(keepingCapacity: true)
            saved.reserveCapacity(area.width * area.height)
            for y in area.top..<area.top + area.height {
                saved.append(contentsOf: UnsafeBufferPointer(start: row(y) + area.left, count: area.width))
            }
        }
    }

    /// Reads a GIF's records and holds only the current frame. Owns giflib's reader.
    final class GIFReader {
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

        /// Advances to the pixels of the next frame; returns `nil` after the last.
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

        /// A row of palette indices. Returns `false` if the file declares the end of the pixels here. Browsers display
        /// such frames.
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

        /// Returns the number of bytes copied.
        func read(into buffer: UnsafeMutablePointer<GifByteType>, _ count: Int32) -> Int32 {
            let end = min(data.endIndex, index + max(0, Int(count)))
            data.copyBytes(to: buffer, from: index..<end)
            defer { index = end }
            return Int32(end - index)
        }
    }

    /// A frame's position, colours and control data, which come before its pixels in the file.
    struct GIFFrame {
        /// The treatment of the frame's area before the next frame is drawn (GIF 89a, 23).
        enum Disposal {
            case keep
            case clear
            case restore
        }

        let left: Int
        let top: Int
        let width: Int
        let height: Int
        let isInterlaced: Bool
        let disposal: Disposal
        /// As the file states it.
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
            disposal =
                switch control.DisposalMode {
                case DISPOSE_BACKGROUND: .clear
                case DISPOSE_PREVIOUS: .restore
                default: .keep
                }
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
