#if GIF
    import CGIF
    import CPixels
    import Foundation

    /// A decoder for still and animated GIF 87a and 89a. giflib reads the records; complete frames are unpacked by code of
    /// Dipper's own, and frames with anything unusual in them by giflib.
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

        public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try GIFFrames.memory(of: ImageInfo(data), options).all
        }

        public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            try options.checkCancelled()
            return try picture(FileFrames(GIFFrames(data, options), options), of: data)
        }

        public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
            try FileFrames(GIFFrames(data, options), options).ifAnimated
        }
    }

    /// Draws the frames on the logical screen of a GIF, transparent at first. Parts of a frame outside are cropped.
    /// Disposal to the background makes the area transparent, whatever the background colour, as browsers do.
    private final class GIFFrames: FrameReader {
        let frameCount: Int
        let loopCount: Int
        let held: Int
        private let data: Data
        private let options: DecodeOptions
        private let canvas: AnimationCanvas
        private var reader: GIFReader
        private var line: [UInt8] = []
        /// Where frames no larger than the canvas are unpacked.
        private let indices: PixelStorage

        /// In pixels: unpacking cannot be cancelled.
        private static let mostAtOnce = 1 << 24
        private var isFirst = true
        private var isCutOff = false

        static func memory(of info: ImageInfo, _ options: DecodeOptions) throws(DipperError) -> (held: Int, all: Int) {
            let size = info.size ?? PixelSize(width: 0, height: 0)
            // With the indices.
            let held = try size.byteCount(AnimationCanvas.bytesPerPixel + 1)
            let frame = try RowWriter.byteCount(from: size, to: options.storedTarget(for: size, .up))
            return (held, held + options.resultBytes(frame, frames: info.frameCount, beside: held))
        }

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            try options.check(size, frames: info.frameCount)
            let memory = try Self.memory(of: info, options)
            try options.limits.check(bytes: memory.all)
            held = memory.held
            (frameCount, loopCount) = (info.frameCount, info.loopCount)
            self.data = data
            self.options = options
            reader = try GIFReader(data)
            canvas = try AnimationCanvas(size)
            indices = try PixelStorage(byteCount: pixels_gif_memory(size.width * size.height))
        }

        func restart() throws(DipperError) {
            reader = try GIFReader(data)
            canvas.restart()
            (isFirst, isCutOff) = (true, false)
        }

        func read() throws(DipperError) -> AnimationFrame? {
            guard !isCutOff, let frame = try reader.nextFrame() else { return nil }
            let size = frame.area.size
            try options.limits.check(PixelSize(width: max(1, size.width), height: max(1, size.height)))
            do throws(DipperError) {
                try draw(frame)
            } catch {
                guard error == .undecodable, isFirst, options.allowsPartial else { throw error }
                isCutOff = true
            }
            isFirst = false
            return AnimationFrame(image: try canvas.image(options), duration: frame.duration)
        }

        private func draw(_ frame: GIFFrame) throws(DipperError) {
            let area = frame.area.overlap(canvas.bounds)
            try canvas.begin(area, frame.disposal)
            guard let area else { return try reader.skipPixels() }
            if try drawAtOnce(frame, area) { return }
            // giflib has already read past the end of a frame if all of its rows were read.
            if try !drawLines(of: frame, area) { try reader.skipPixels() }
        }

        /// Returns `false` if giflib must read the frame.
        private func drawAtOnce(_ frame: GIFFrame, _ visible: PixelRect) throws(DipperError) -> Bool {
            let (width, height) = (frame.area.size.width, frame.area.size.height)
            guard width * height <= min(Self.mostAtOnce, canvas.bounds.size.width * canvas.bounds.size.height),
                let pixels = reader.unpack(width * height, in: indices.base)
            else { return false }
            var next = pixels
            for (start, step) in frame.rows {
                try options.checkCancelled()
                for y in stride(from: start, to: height, by: step) {
                    if y < visible.size.height {
                        pixels_gif_draw(canvas.row(y, of: visible), next, visible.size.width, frame.colors)
                    }
                    next += width
                }
            }
            return true
        }

        /// Draws the part of a frame on the canvas. Returns `false` if the data ends early or the last rows are below
        /// the canvas.
        private func drawLines(of frame: GIFFrame, _ visible: PixelRect) throws(DipperError) -> Bool {
            let (width, height) = (frame.area.size.width, frame.area.size.height)
            if line.count != width { line = [UInt8](repeating: 0, count: width) }
            let lastRow = frame.isInterlaced ? height : visible.size.height
            var read = 0
            for (start, step) in frame.rows {
                for y in stride(from: start, to: lastRow, by: step) {
                    guard try reader.readLine(into: &line) else { return false }
                    if y < visible.size.height {
                        pixels_gif_draw(canvas.row(y, of: visible), line, visible.size.width, frame.colors)
                    }
                    read += 1
                    if read % DecodeOptions.rowsAtATime == 0 { try options.checkCancelled() }
                }
            }
            return lastRow == height
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

        /// Unpacks the pixels of the frame whose header has been read, and passes over them. Returns `nil`, and has read
        /// nothing, if giflib must read them.
        func unpack(_ count: Int, in memory: UnsafeMutableRawPointer) -> UnsafePointer<UInt8>? {
            // giflib has read the size of the codes, and nothing behind it.
            input.unpack { bytes, codeSize, used in
                pixels_gif_unpack(memory, count, bytes.baseAddress, bytes.count, UInt32(codeSize), &used)
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

        /// Gives a closure the bytes to come, and the last byte that has been read. It sets how many bytes it used.
        func unpack<Value>(_ body: (UnsafeBufferPointer<UInt8>, UInt8, inout Int) -> Value) -> Value {
            data.withUnsafeBytes { bytes in
                let all = bytes.bindMemory(to: UInt8.self)
                let offset = index - data.startIndex
                var used = 0
                defer { index += used }
                return body(UnsafeBufferPointer(rebasing: all[offset...]), offset > 0 ? all[offset - 1] : 0, &used)
            }
        }

        func read(into buffer: UnsafeMutablePointer<GifByteType>, _ count: Int32) -> Int32 {
            let end = min(data.endIndex, index + max(0, Int(count)))
            data.copyBytes(to: buffer, from: index..<end)
            defer { index = end }
            return Int32(end - index)
        }
    }

    private struct GIFFrame {
        let area: PixelRect
        let isInterlaced: Bool
        /// The treatment of the frame's area before the next frame is drawn (GIF 89a, 23).
        let disposal: AnimationCanvas.Disposal
        let duration: Duration
        /// The pixel for each of 256 indices, in the byte order of memory; 0 leaves the canvas as it is.
        let colors: [UInt32]

        init(_ file: GifFileType, _ control: GraphicsControlBlock) {
            let image = file.Image
            area = PixelRect(
                x: Int(image.Left), y: Int(image.Top), width: Int(image.Width), height: Int(image.Height))
            isInterlaced = image.Interlace
            disposal =
                switch control.DisposalMode {
                case DISPOSE_BACKGROUND: .clear
                case DISPOSE_PREVIOUS: .restore
                default: .keep
                }
            duration = .milliseconds(10 * Int(control.DelayTime))
            let map: UnsafeMutablePointer<ColorMapObject>? = image.ColorMap ?? file.SColorMap
            // Indices beyond the palette are transparent, as in browsers. Without a palette the indices are greys.
            colors = (0..<256).map { (index: Int) -> UInt32 in
                if index == Int(control.TransparentColor) { return 0 }
                guard let map, let palette = map.pointee.Colors else {
                    return Self.pixel(UInt8(index), UInt8(index), UInt8(index))
                }
                guard index < Int(map.pointee.ColorCount) else { return 0 }
                return Self.pixel(palette[index].Red, palette[index].Green, palette[index].Blue)
            }
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
