#if GIF
    /// The logical screen of a GIF, on which its frames are drawn one after the other.
    final class GIFCanvas {
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
