#if GIF
    import Foundation

    /// Decodes the frames of a GIF: each as the canvas looks when it is shown.
    ///
    /// What of a frame is outside the logical screen is cut off. The canvas is transparent at first; disposal to the
    /// background makes it so again, as browsers do, whatever the background's colour.
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
            reader = try GIFReader(data)
            let size = try Self.canvasSize(reader.screen, data)
            try options.limits.check(size)
            // The canvas, and the picture made of it.
            try options.limits.checkMemory(PixelSize(width: size.width, height: 2 * size.height))
            if options.firstFrameOnly {
                (frameCount, loopCount) = (1, 1)
            } else {
                // A file without a logical screen has no header that can be read otherwise.
                if reader.screen.isEmpty {
                    (frameCount, loopCount) = (try Self.countFrames(data), 1)
                } else {
                    let info = try ImageInfo(data)
                    (frameCount, loopCount) = (info.frameCount, info.loopCount)
                }
                try options.limits.check(size, frames: frameCount)
            }
            canvas = GIFCanvas(size)
        }

        /// A file without a logical screen has one that holds the first frame.
        private static func canvasSize(_ screen: PixelSize, _ data: Data) throws(DipperError) -> PixelSize {
            guard screen.isEmpty else { return screen }
            guard let first = try GIFReader(data).nextFrame() else {
                throw .undecodable.with(detail: "GIF: there are no frames")
            }
            return PixelSize(width: first.left + first.width, height: first.top + first.height)
        }

        private static func countFrames(_ data: Data) throws(DipperError) -> Int {
            let reader = try GIFReader(data)
            var count = 0
            do throws(DipperError) {
                while try reader.nextFrame() != nil {
                    try reader.skipPixels()
                    count += 1
                }
            } catch {
                // The end of the bytes ends the counting.
            }
            return count
        }

        func rewind() throws(DipperError) {
            reader = try GIFReader(data)
            canvas.clear()
            shown = 0
            isAtEnd = false
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd else { return nil }
            // Whatever happens, the file is read no further unless the frame is complete.
            isAtEnd = true
            guard let duration = try drawNext() else { return nil }
            let image = try RowWriter.image(
                of: canvas.canvas, picture: canvas.size, alpha: .premultiplied, options)
            shown += 1
            return AnimationFrame(image: image, duration: duration)
        }

        /// - Returns: how long the frame is shown; `nil` if there is none, or it ends too early.
        private func drawNext() throws(DipperError) -> Duration? {
            do throws(DipperError) {
                guard let frame = try reader.nextFrame() else { return nil }
                try options.limits.check(PixelSize(width: max(1, frame.width), height: max(1, frame.height)))
                let isComplete = try draw(frame)
                isAtEnd = !isComplete
                return isComplete || shown == 0 ? frame.duration : nil
            } catch {
                // What comes after a broken place cannot be told from noise; what came before it is good.
                if error == .undecodable, shown > 0 { return nil }
                throw error
            }
        }

        /// - Returns: false if the file ends too early, and part of a picture is wanted.
        private func draw(_ frame: GIFFrame) throws(DipperError) -> Bool {
            let visible = canvas.begin(frame)
            do throws(DipperError) {
                if !visible.isEmpty { try drawLines(of: frame, visible) }
                // giflib has passed over the end of a frame whose rows were all read.
                let isRead = !visible.isEmpty && (frame.isInterlaced || visible.height == frame.height)
                if !isRead { try reader.skipPixels() }
                return true
            } catch {
                guard error == .undecodable, shown == 0, options.allowsPartial else { throw error }
                return false
            }
        }

        private func drawLines(of frame: GIFFrame, _ visible: PixelSize) throws(DipperError) {
            if line.count != frame.width { line = [UInt8](repeating: 0, count: frame.width) }
            let lastRow = frame.isInterlaced ? frame.height : visible.height
            var untilCheck = RowWriter.rowsAtATime
            for (start, step) in frame.rows {
                for row in stride(from: start, to: lastRow, by: step) {
                    try reader.readLine(into: &line)
                    if row < visible.height { canvas.draw(line, count: visible.width, row: row, of: frame) }
                    untilCheck -= 1
                    if untilCheck == 0 {
                        try options.checkCancelled()
                        untilCheck = RowWriter.rowsAtATime
                    }
                }
            }
        }
    }
#endif
