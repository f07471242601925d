import DipperData

/// Hooks and events: each is told what has happened already, in order.
extension ImageTask {
    /// Called with the picture once it is there.
    @discardableResult
    public func then(_ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        onEnd { result in
            if case .success(let response) = result { body(response.image) }
        }
    }

    /// Called once with the end, good or bad.
    @discardableResult
    public func onEnd(_ body: @escaping @Sendable (Result<ImageResponse, DipperError>) -> Void) -> ImageTask {
        add(.end(body))
    }

    /// Called just before each new attempt after a failure.
    @discardableResult
    public func onRetry(_ body: @escaping @Sendable () -> Void) -> ImageTask { add(.retry(body)) }

    /// Called at each failure: with `false` if the call waits to try again, with `true` if that was its end.
    @discardableResult
    public func onFail(_ body: @escaping @Sendable (_ error: DipperError, _ isFatal: Bool) -> Void) -> ImageTask {
        add(.failure(body))
    }

    /// Called as bytes arrive, at most once per interval of the cache's configuration, and at the last byte.
    @discardableResult
    public func onProgress(_ body: @escaping @Sendable (TaskProgress) -> Void) -> ImageTask {
        wantProgress()
        return add(.progress(body))
    }

    /// Called with coarse pictures while the bytes of a progressive one arrive, if ``ImageOptions/showsPreviews`` is set.
    /// They are processed like the picture itself, and not kept.
    @discardableResult
    public func onPreview(_ body: @escaping @Sendable (Image) -> Void) -> ImageTask { add(.preview(body)) }

    /// Called if the call was answered with a picture that is out of date (`stale-while-revalidate`), once the newer one
    /// is there, or could not be had. See ``ImageResponse/revalidation``.
    @discardableResult
    public func onRevalidate(_ body: @escaping @Sendable (Result<ImageResponse, DipperError>) -> Void) -> ImageTask {
        onEnd { result in
            if case .success(let response) = result { response.revalidation?.onEnd(body) }
        }
    }

    /// All that happens from now on, after the present state. Ends with the task.
    public var events: AsyncStream<Event> {
        wantProgress()
        return feed.news.events(present: state) { [weak self] in self?.feed.news.forget(stream: $0) }
    }
}

extension ImageTask: RedactedStringConvertible {
    /// The key without secrets, the queue, and the state of the task.
    public var description: String { "\(key) \(queue.rawValue) \(state)" }
}
