#if GIF
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

    /// A decoder of a GIF's frames: each is the canvas as it looks when the frame is displayed.
    ///
    /// Parts of a frame outside the logical screen are cropped. The canvas is transparent at first. Disposal to the
    /// background makes the area transparent again, whatever the background colour, as browsers do.
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

        /// Draws the next frame onto the canvas.
        /// - Returns: the time for which the frame is displayed; `nil` if there is no frame, or it is broken and not
        ///   the first.
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

        /// Draws a frame onto the canvas.
        /// - Returns: `false` if the first frame is broken or ends too early, and the options allow a partial picture.
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

        /// Draws the rows of a frame.
        /// - Returns: whether all rows were read. They are not if the data ends early or the last rows are below the
        ///   canvas.
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
        /// The area and disposal of the last frame, applied before the next one is drawn.
        private var pending: (area: Area, disposal: GIFFrame.Disposal)?
        /// The pixels under the last frame, if its disposal restores them.
        private var saved = [UInt32]()

        /// A part of the canvas.
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

        /// Makes every pixel transparent.
        func clear() {
            pixels.clear()
            pending = nil
        }

        /// The current pixels.
        var canvas: Canvas { Canvas(base: pixels.base, size: size, rowStride: pixels.rowStride) }

        /// Disposes of the previous frame and prepares for the next.
        /// - Returns: the number of columns and rows of the frame that are on the canvas.
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

        /// Draws the first pixels of a row of a frame.
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
#endif
