import Foundation
import Synchronization

/// The frames of an animation, decoded one by one by a helper, which keeps what it needs for the next one.
final class IsolatedFrames: FrameDecoder {
    private let pool: DecoderPool
    private let data: Data
    private let options: DecodeOptions
    /// The first frame: the program expects the others to be like it.
    private let first: DecoderReply.Picture
    private static let sessions = Atomic(0)
    private let session = IsolatedFrames.sessions.add(1, ordering: .relaxed).newValue
    private let decoder: String
    private var process: DecoderProcess? {
        didSet {
            guard process !== oldValue else { return }
            oldValue?.close(session)
            process?.animations.add(1, ordering: .relaxed)
        }
    }
    private var position = 0

    init(
        _ pool: DecoderPool, _ data: Data, _ options: DecodeOptions, _ decoder: String, like first: DecoderReply.Picture
    ) {
        (self.pool, self.data, self.options, self.decoder, self.first) = (pool, data, options, decoder, first)
    }

    deinit { process?.close(session) }

    func next() throws(DipperError) -> AnimationFrame? {
        try options.checkCancelled()
        guard position < first.frameCount else { return nil }
        var request = DecoderRequest(.frame)
        (request.session, request.frame, request.options, request.decoder) = (session, position, options, decoder)
        request.mostBytes = try first.size.byteCount()
        guard let answer = try pool.ask(request, data, on: &process) else { return nil }
        guard answer.picture.size == first.size else {
            throw .decoderFailed.with(detail: "a frame of another size")
        }
        position += 1
        return AnimationFrame(image: answer.image, duration: answer.picture.duration)
    }

    func rewind() { position = 0 }

    func all() throws(DipperError) -> [AnimationFrame] {
        var all: [AnimationFrame] = []
        while let frame = try next() { all.append(frame) }
        return all
    }
}
