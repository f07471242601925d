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
            let info = try ImageInfo(data)
            let size = info.size ?? PixelSize(width: 0, height: 0)
            (frameCount, loopCount) = options.firstFrameOnly ? (1, 1) : (info.frameCount, info.loopCount)
            try options.limits.check(size, frames: frameCount)
            // The canvas, and the picture made of it.
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
                // giflib has passed over the end of a frame whose rows were all read.
                let areAllRead = visible.isEmpty ? false : try drawLines(of: frame, visible)
                if !areAllRead { try reader.skipPixels() }
                return true
            } catch {
                guard error == .undecodable, shown == 0, options.allowsPartial else { throw error }
                return false
            }
        }

        /// - Returns: whether all rows of the frame were read; not so if they end early, or are not on the canvas.
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
