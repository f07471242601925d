import DipperData

extension AnimatedImage {
    /// Calls a closure with each frame when it is due, and with the number of the frame, from 0.
    @discardableResult
    public func onFrame(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image, _ index: Int) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .frame(let frame) = $0 { body(frame.image, frame.index) } }
    }

    /// Calls a closure when the first frames are decoded, just before the first one is shown; once for each start.
    @discardableResult
    public func onPrepared(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .prepared = $0 { body() } }
    }

    /// Calls a closure each time all frames have been shown, with the number of times so far.
    @discardableResult
    public func onLoop(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ count: Int) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .looped(let count) = $0 { body(count) } }
    }

    /// Calls a closure when the last frame has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFinish(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .finished = $0 { body() } }
    }

    /// Calls a closure if a frame cannot be processed or is too large, or if not even the first can be decoded, after the
    /// frame before it has been shown for its duration. No hook is called afterwards.
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (DipperError) -> Void
    ) -> AnimatedImage {
        let body = onItsActor(body)
        return add { if case .failed(let error) = $0 { body(error) } }
    }

    /// A stream of the frames as they are due. A reader that is late receives only the newest. The stream begins with
    /// ``currentFrame`` and ends with the player.
    ///
    /// ```swift
    /// let frames = player.frames
    /// player.start()
    /// for await frame in frames { view.show(frame) }
    /// ```
    public var frames: AsyncStream<Image> {
        let (stream, continuation) = AsyncStream.makeStream(of: Image.self, bufferingPolicy: .bufferingNewest(1))
        let number = player.withLock { player -> Int? in
            // The stream has no reader yet, so nothing wakes up here, and no frame can come in between.
            continuation.yield(player.current.image)
            let hasEnded = ![.idle, .playing].contains(player.schedule.phase)
            // Until the hooks are told the end, the streams go on too.
            guard !hasEnded || player.untold.contains(where: \.isEnd) else { return nil }
            player.lastStream += 1
            player.streams[player.lastStream] = continuation
            return player.lastStream
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            let ended = self?.player.withLock { $0.streams.removeValue(forKey: number) }
            _ = consume ended
        }
        return stream
    }

    private func add(_ hook: @escaping @Sendable (AnimationSchedule.Event) -> Void) -> AnimatedImage {
        player.withLock { $0.hooks.append(hook) }
        return self
    }
}
