import Foundation

/// Making previews of pictures whose bytes are still arriving.
extension ImageLoader {
    /// Notes the bytes that have arrived. They are checked, and a preview is made, on a decoding thread or on the
    /// request's processing queue.
    /// - Returns: `false` if there will never be a preview.
    func preview(_ task: ImageTask, _ bytes: Data) -> Bool {
        guard let viewer = task.previewDecoder(of: previews), !viewer.isPointless else { return false }
        guard viewer.arrived(bytes) else { return true }
        let (options, key) = (task.options, task.memoryKey)
        let run: @Sendable () -> Void = { [self] in
            viewer.run { bytes in preview(bytes, options) { viewer.isCancelled } }
            previews.forgetIfIdle(viewer, key)
        }
        let cost: @Sendable () -> Int = { DecodeCost.bytes(of: bytes, options) }
        if let place = options.options.processingQueue?.run {
            place(run)
        } else if queue.add(.init(rank: viewer.isUrgent ? .urgent : .slow, priority: .low), cost: cost, run) == nil {
            viewer.giveUp()
        }
        return true
    }

    private func preview(
        _ bytes: Data, _ options: ResolvedOptions, isCancelled: @escaping @Sendable () -> Bool
    ) -> Image? {
        var decode = options.decodeOptions(limits, isCancelled: isCancelled)
        decode.allowsPartial = true
        guard let image = try? codecs.decode(bytes, decode) else { return nil }
        return try? options.chain.process(image, ProcessingContext(limits: limits, isCancelled: isCancelled))
    }
}
