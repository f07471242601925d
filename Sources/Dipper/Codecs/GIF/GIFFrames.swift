#if GIF
    import Foundation

    /// A decoder of a GIF's frames: each is the canvas as it looks when the frame is displayed.
    ///
    /// Parts of a frame outside the logical screen are cropped. The canvas is transparent at first. Disposal to the
    /// background makes the area transparent again, whatever the background colour, as browsers do.
    final class GIFFrames: CountedFrames {
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
#endif
