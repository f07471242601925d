extension ImageTask {
    /// The state of a task.
    ///
    /// ```swift
    /// let task = cache.getImage(url)
    /// try await Task.sleep(for: .seconds(2))
    /// if task.state == .parked { banner.show("Waiting for the network") }
    /// ```
    public enum State: Sendable, Hashable {
        /// The task is in its queue, or the cache is looking for the picture on disk.
        case waiting
        /// The bytes are arriving.
        case transferring
        /// The transfer is held back for urgent work.
        case paused
        /// The task waits for the network or for a back-off.
        case parked
        /// The bytes are there, and are being decoded and processed or wait for that.
        case decoding
        /// The task has ended with a picture.
        case finished
        /// The task has ended with an error.
        case failed(DipperError)
    }

    /// An event of a task. See ``ImageTask/events``.
    public enum Event: Sendable {
        /// The first event of a stream: the state of the task when the stream was made.
        case state(ImageTask.State)
        /// The arrival of bytes.
        case progress(TaskProgress)
        /// A coarse or partial picture, if ``ImageOptions/showsPreviews`` is set.
        case preview(Image)
        /// A failure. If it is fatal, it is the last event; otherwise the task waits to try again.
        case failure(DipperError, isFatal: Bool)
        /// The start of a new attempt.
        case retry
        /// The picture, as the last event.
        case finished(ImageResponse)
    }
}

extension ImageTask.Event: TaskEvent {
    package typealias Output = ImageResponse
    package typealias State = ImageTask.State
    package typealias Preview = Image
}

extension ImageTask: RedactedStringConvertible {}
