import DipperData

extension AnimatedImage {
    /// Called with each frame when it is due, and its number from 0.
    @discardableResult
    public func onFrame(_ body: @escaping @Sendable (Image, _ index: Int) -> Void) -> AnimatedImage {
        add { $0.frame.append(body) }
    }

    /// Called once the first frames are decoded, just before the first one is shown; once for each start.
    @discardableResult
    public func onPrepared(_ body: @escaping @Sendable () -> Void) -> AnimatedImage {
        add { $0.prepared.append(body) }
    }

    /// Called each time all frames have been shown, with how often that was.
    @discardableResult
    public func onLoop(_ body: @escaping @Sendable (_ count: Int) -> Void) -> AnimatedImage {
        add { $0.looped.append(body) }
    }

    /// Called once the last frame has had its time. Nothing comes after it.
    @discardableResult
    public func onFinish(_ body: @escaping @Sendable () -> Void) -> AnimatedImage {
        add { $0.finished.append(body) }
    }

    /// Called if a frame cannot be decoded or processed, when the one before it has had its time. Nothing comes after it.
    @discardableResult
    public func onFail(_ body: @escaping @Sendable (DipperError) -> Void) -> AnimatedImage {
        add { $0.failed.append(body) }
    }

    /// The frames as they are due, the newest alone for a reader that is late. It begins with ``currentFrame`` and ends
    /// when the player does.
    public var frames: AsyncStream<Image> {
        let (stream, continuation) = AsyncStream.makeStream(of: Image.self, bufferingPolicy: .bufferingNewest(1))
        let number = player.withLock { player -> Int? in
            // Nobody reads yet, so that nothing is woken here; and no frame can come in between.
            continuation.yield(player.current.image)
            let hasEnded =
                switch player.schedule.phase {
                case .finished, .failed: !player.mailbox.hasEnd
                case .idle, .playing: false
                }
            return hasEnded ? nil : player.hooks.add(continuation)
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            let ended = self?.player.withLock { $0.hooks.streams.removeValue(forKey: number) }
            _ = consume ended
        }
        return stream
    }

    private func add(_ change: (inout AnimationHooks) -> Void) -> AnimatedImage {
        player.withLock { change(&$0.hooks) }
        return self
    }
}
