import DipperData

/// The hooks and streams of a player.
struct AnimationHooks: Sendable {
    var frame: [@Sendable (Image, Int) -> Void] = []
    var prepared: [@Sendable () -> Void] = []
    var looped: [@Sendable (Int) -> Void] = []
    var finished: [@Sendable () -> Void] = []
    var failed: [@Sendable (DipperError) -> Void] = []
    var streams: [Int: AsyncStream<Image>.Continuation] = [:]
    private var nextStream = 0

    /// Adds a stream of frames.
    /// - Returns: the number of the stream.
    mutating func add(_ stream: AsyncStream<Image>.Continuation) -> Int {
        nextStream += 1
        streams[nextStream] = stream
        return nextStream
    }

    /// Takes the streams, which the caller must end when it holds no lock.
    mutating func takeStreams() -> [AsyncStream<Image>.Continuation] {
        defer { streams = [:] }
        return Array(streams.values)
    }

    func tell(_ news: AnimationMailbox.News) {
        switch news {
        case .prepared: for body in prepared { body() }
        case .frame(let image, let index):
            for body in frame { body(image, index) }
            for stream in streams.values { stream.yield(image) }
        case .looped(let count): for body in looped { body(count) }
        case .finished: for body in finished { body() }
        case .failed(let error): for body in failed { body(error) }
        }
    }
}
