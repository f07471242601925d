#if AVIF
    import Foundation

    /// A decoder of an AVIF file's frames. A still picture has one.
    final class AVIFFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let file: AVIFFile
        private let options: DecodeOptions
        /// The colour transform of the first frame, used for all frames; `nil` before the first frame is decoded.
        private var color: ColorTransform??
        private var shown = 0
        private var isAtEnd = false

        init(_ data: Data, _ options: DecodeOptions) throws(DipperError) {
            self.options = options
            let info = try? ImageInfo(data)
            if let size = info?.size {
                try options.limits.check(size, frames: options.firstFrameOnly ? 1 : info?.frameCount ?? 1)
            }
            loopCount = info?.loopCount ?? 1
            file = try AVIFFile(data, options.limits)
            frameCount = options.firstFrameOnly ? min(1, file.frameCount) : file.frameCount
            guard let announced = file.announced else { throw .undecodable.with(detail: "AVIF: there is no picture") }
            try options.limits.check(announced.size, frames: frameCount)
            let stored = options.storedTarget(for: announced.size, announced.orientation)
            try options.limits.checkMemory(stored)
            try options.limits.check(
                bytes: file.planeBytes(options.limits) + stored.width * stored.height * 4)
        }

        func rewind() throws(DipperError) {
            try file.rewind()
            (shown, isAtEnd) = (0, false)
        }

        func next() throws(DipperError) -> AnimationFrame? {
            guard !isAtEnd else { return nil }
            try options.checkCancelled()
            isAtEnd = true
            guard let picture = try nextPicture() else { return nil }
            let image = try image(of: picture)
            shown += 1
            isAtEnd = false
            return AnimationFrame(image: image, duration: picture.duration)
        }

        private func nextPicture() throws(DipperError) -> AVIFPicture? {
            do throws(DipperError) {
                return try file.next()
            } catch {
                // Frames before a broken one are good.
                if error == .undecodable, shown > 0 { return nil }
                throw error
            }
        }

        private func image(of picture: AVIFPicture) throws(DipperError) -> Image {
            let size = picture.size
            try options.limits.check(size)
            var writer = try RowWriter(
                source: size, of: size, alpha: picture.hasAlpha ? .straight : .opaque,
                orientation: picture.orientation, options)
            let beside = picture.rowsBeside
            let scratch = try PixelBuffer(
                PixelSize(width: size.width, height: min(size.height, RowWriter.rowsAtATime + 2 * beside + 1)))
            while writer.committed < size.height {
                try options.checkCancelled()
                let first = writer.committed
                let (memory, rows) = writer.memory(rows: RowWriter.rowsAtATime)
                // libavif's view of a part of the planes must begin at an even row.
                let start = max(0, first - first % 2 - beside)
                let end = min(size.height, first + rows + beside)
                try picture.convert(start..<end, into: scratch.base)
                memory.copyMemory(from: scratch.row(first - start), byteCount: rows * scratch.rowStride)
                writer.commit(rows)
            }
            withExtendedLifetime(scratch) {}
            let color = self.color ?? picture.color
            self.color = .some(color)
            return try writer.finish(color: color)
        }
    }
#endif
