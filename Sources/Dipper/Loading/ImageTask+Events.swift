extension ImageTask {
    /// What a task is doing.
    public enum State: Sendable, Hashable {
        /// In its queue, or being looked up on disk.
        case waiting
        /// Its bytes are arriving.
        case transferring
        /// Transferring, but held back for urgent work.
        case paused
        /// Waiting for the network or for a back-off.
        case parked
        /// The bytes are there: they are being decoded and processed, or wait for that.
        case decoding
        /// Ended with a picture.
        case finished
        /// Ended with an error.
        case failed(DipperError)
    }

    /// What a task tells.
    public enum Event: Sendable {
        /// Comes first: the state at the time the stream was made.
        case state(ImageTask.State)
        /// Bytes have arrived.
        case progress(TaskProgress)
        /// A coarse or partial picture, if ``ImageOptions/showsPreviews`` is set.
        case preview(Image)
        /// A failure; if it is not fatal, the task waits to try again. Nothing comes after a fatal one.
        case failure(DipperError, isFatal: Bool)
        /// A new attempt begins.
        case retry
        /// The picture is there. Nothing comes after it.
        case finished(ImageResponse)
    }
}
