import DipperData

/// Hooks and events. A hook that is added late first receives the events that it missed, in order.
extension ImageTask {
    /// Calls a closure with the picture when it is loaded.
    ///
    /// ```swift
    /// cache.getImage(url)
    ///     .onProgress { progress in bar.set(progress.fraction) }
    ///     .then { image in view.show(image) }
    /// ```
    @discardableResult
    public func then(_ body: @escaping @Sendable (Image) -> Void) -> ImageTask {
        onEnd { result in
            if case .success(let response) = result { body(response.image) }
        }
    }

    /// Calls a closure once with the result of the task: the picture, or the error.
    ///
    /// ```swift
    /// cache.getImage(url).onEnd { result in
    ///     switch result {
    ///     case .success(let response): view.show(response.image)
    ///     case .failure(let error): print(error)
    ///     }
    /// }
    /// ```
    @discardableResult
    public func onEnd(_ body: @escaping @Sendable (Result<ImageResponse, DipperError>) -> Void) -> ImageTask {
        add(.end(body))
    }

    /// Calls a closure just before each new attempt after a failure. See ``onFail(_:)``.
    @discardableResult
    public func onRetry(_ body: @escaping @Sendable () -> Void) -> ImageTask { add(.retry(body)) }

    /// Calls a closure at each failure.
    ///
    /// ```swift
    /// cache.getImage(url)
    ///     .onFail { error, isFatal in banner.show(isFatal ? "\(error)" : "Trying again soon.") }
    ///     .onRetry { banner.hide() }
    /// ```
    /// - Parameter body: the closure; `isFatal` is `false` if the task waits to try again, and `true` if the failure
    ///   ends the task.
    @discardableResult
    public func onFail(_ body: @escaping @Sendable (_ error: DipperError, _ isFatal: Bool) -> Void) -> ImageTask {
        add(.failure(body))
    }

    /// Calls a closure as bytes arrive, at most once per interval of the cache's configuration, and at the last byte.
    ///
    /// ```swift
    /// cache.getImage(url).onProgress { progress in
    ///     if progress.expected != nil { bar.set(progress.fraction) } else { print(progress.received, "bytes") }
    /// }
    /// ```
    @discardableResult
    public func onProgress(_ body: @escaping @Sendable (TaskProgress) -> Void) -> ImageTask {
        wantProgress()
        return add(.progress(body))
    }

    /// Calls a closure with coarse pictures while the bytes of a progressive picture arrive, if
    /// ``ImageOptions/showsPreviews`` is set.
    ///
    /// Previews are processed like the picture itself, and are not kept.
    ///
    /// ```swift
    /// cache.getImage(ImageRequest(url).with(\.showsPreviews, true))
    ///     .onPreview { coarse in view.show(coarse) }
    ///     .then { image in view.show(image) }
    /// ```
    @discardableResult
    public func onPreview(_ body: @escaping @Sendable (Image) -> Void) -> ImageTask { add(.preview(body)) }

    /// Calls a closure when the newer picture has been loaded, or could not be loaded, if the task was answered with a
    /// picture that is out of date (`stale-while-revalidate`).
    ///
    /// See ``ImageResponse/revalidation``.
    ///
    /// ```swift
    /// cache.getImage(url)
    ///     .then { image in view.show(image) }
    ///     .onRevalidate { newer in if case .success(let response) = newer { view.show(response.image) } }
    /// ```
    @discardableResult
    public func onRevalidate(_ body: @escaping @Sendable (Result<ImageResponse, DipperError>) -> Void) -> ImageTask {
        onEnd { result in
            if case .success(let response) = result { response.revalidation?.onEnd(body) }
        }
    }

    /// The events of the task from now on, after the present state. The stream ends with the task.
    ///
    /// ```swift
    /// for await event in cache.getImage(url).events {
    ///     switch event {
    ///     case .progress(let progress): bar.set(progress.fraction)
    ///     case .finished(let response): view.show(response.image)
    ///     default: break
    ///     }
    /// }
    /// ```
    public var events: AsyncStream<Event> {
        wantProgress()
        return feed.news.events(present: state) { [weak self] in self?.feed.news.forget(stream: $0) }
    }
}

extension ImageTask: RedactedStringConvertible {
    /// The key without secrets, the queue, and the state of the task.
    public var description: String { "\(key) \(queue.rawValue) \(state)" }
}
