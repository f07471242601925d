#if AVIF
    import Foundation

    /// Decodes the frames of an AVIF; a still picture has one.
    final class AVIFFrames: CountedFrames {
        let frameCount: Int
        let loopCount: Int
        private let file: AVIFFile
        private let options: DecodeOptions
        /// Of the first frame; all have the same.
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
                // The frames before a broken one are good.
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
                // A part of the planes begins with an even row.
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
