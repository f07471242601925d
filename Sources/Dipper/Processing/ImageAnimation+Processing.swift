extension ImageAnimation {
    /// Returns an animation whose frames are processed further.
    /// - Parameters:
    ///   - scale: the scale that each frame is given before it is processed.
    ///   - first: the first frame, which is processed already.
    ///   - context: provides the limits, which hold for all frames that were decoded ahead together. If these exceed
    ///     the limit in bytes, frames are decoded when they are needed.
    /// - Throws: what the processors throw for a frame that was decoded ahead.
    func processed(
        by chain: ImageProcessors.Chain, scale: Double, first: Image, _ context: ProcessingContext
    ) throws(DipperError) -> ImageAnimation {
        // The frames of an earlier chain may have another scale.
        let rescale = ImageProcessors.Custom("scale") { image, _ throws(DipperError) in image.at(scale: scale) }
        let chain = ImageProcessors.Chain([rescale, chain])
        let preloaded = try processedAhead(by: chain, first: first, context)
        return changed(limits: context.limits, preloaded: preloaded) { frames, limits, isCancelled in
            ProcessedFrames(frames, chain, ProcessingContext(limits: limits, isCancelled: isCancelled))
        }
    }

    private func processedAhead(
        by chain: ImageProcessors.Chain, first: Image, _ context: ProcessingContext
    ) throws(DipperError) -> [AnimationFrame]? {
        guard let preloaded, let start = preloaded.first else { return nil }
        let (bytes, overflows) = first.byteCount.multipliedReportingOverflow(by: preloaded.count)
        guard !overflows, bytes <= context.limits.bytes else { return nil }
        var frames = [AnimationFrame(image: first, duration: start.duration)]
        for frame in preloaded.dropFirst() {
            try context.checkCancelled()
            let image = try chain.processStill(frame.image, context)
            frames.append(AnimationFrame(image: image, duration: frame.duration))
        }
        return frames
    }
}
