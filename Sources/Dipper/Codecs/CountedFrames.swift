import Foundation

/// A frame decoder of a file with a known number of frames.
protocol CountedFrames: FrameDecoder {
    var frameCount: Int { get }
    var loopCount: Int { get }
}

extension ImageDecoder {
    /// Returns the first frame as a picture. For an animation it also has the decoder of the frames, and all frames if
    /// the options preload them.
    func picture(
        _ frames: some CountedFrames, of data: Data, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        guard let first = try frames.next() else { throw .undecodable.with(detail: "there are no frames") }
        var image = first.image
        guard !options.firstFrameOnly, frames.frameCount > 1 else { return image }
        var count = frames.frameCount
        var preloaded: [AnimationFrame]?
        if options.preloadsFrames {
            preloaded = try allFrames(after: first, of: frames, options)
            count = preloaded?.count ?? count
        }
        guard count > 1 else { return image }
        image.animation = ImageAnimation(
            frameCount: count, loopCount: frames.loopCount, fileSize: data.count, limits: options.limits,
            preloaded: preloaded
        ) { [options = options.forFrames] limits, isCancelled throws(DipperError) in
            var options = options
            options.limits = limits
            options.isCancelled = isCancelled
            guard let frames = try self.frames(of: data, options) else {
                throw .undecodable.with(detail: "there are no frames")
            }
            return frames
        }
        return image
    }

    /// Returns all frames of an animation.
    /// - Returns: `nil` if the frames would take more memory than allowed.
    private func allFrames(
        after first: AnimationFrame, of frames: some CountedFrames, _ options: DecodeOptions
    ) throws(DipperError) -> [AnimationFrame]? {
        let (bytes, overflows) = first.image.byteCount.multipliedReportingOverflow(by: frames.frameCount)
        guard !overflows, bytes <= options.limits.bytes else { return nil }
        var all = [first]
        while all.count < frames.frameCount, let frame = try frames.next() {
            try options.checkCancelled()
            all.append(frame)
        }
        return all
    }
}

extension DecodeOptions {
    /// The options for frames that are decoded on demand: without preloading, and without partial pictures.
    fileprivate var forFrames: DecodeOptions {
        var options = self
        // The closure there is would keep the cache alive.
        options.isCancelled = { false }
        options.preloadsFrames = false
        options.allowsPartial = false
        return options
    }
}
