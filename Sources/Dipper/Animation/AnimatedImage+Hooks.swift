import DipperData

extension AnimatedImage {
    /// Calls a closure with each frame when it is due, and with the number of the frame, from 0. See ``AnimatedImage``.
    @discardableResult
    public func onFrame(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (Image, _ index: Int) -> Void
    ) -> AnimatedImage {
        add { $0.frame.append(onItsActor(body)) }
    }

    /// Calls a closure when the first frames are decoded, just before the first one is shown; once for each start.
    ///
    /// ```swift
    /// player.onPrepared { bar.hide() }
    /// ```
    @discardableResult
    public func onPrepared(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        add { $0.prepared.append(onItsActor(body)) }
    }

    /// Calls a closure each time all frames have been shown, with the number of times so far.
    ///
    /// ```swift
    /// player.onLoop { count in banner.show("shown \(count) times") }
    /// ```
    @discardableResult
    public func onLoop(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (_ count: Int) -> Void
    ) -> AnimatedImage {
        add { $0.looped.append(onItsActor(body)) }
    }

    /// Calls a closure when the last frame has been shown for its duration. No hook is called afterwards.
    ///
    /// ```swift
    /// player.onFinish { banner.show("The end") }
    ///     .onFail { error in banner.show("\(error)") }
    /// ```
    @discardableResult
    public func onFinish(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) () -> Void
    ) -> AnimatedImage {
        add { $0.finished.append(onItsActor(body)) }
    }

    /// Calls a closure if a frame cannot be processed or is too large, or if not even the first can be decoded, after the
    /// frame before it has been shown for its duration. No hook is called afterwards. See ``onFinish(_:)``.
    @discardableResult
    public func onFail(
        @_inheritActorContext _ body: @escaping @Sendable @isolated(any) (DipperError) -> Void
    ) -> AnimatedImage {
        add { $0.failed.append(onItsActor(body)) }
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
