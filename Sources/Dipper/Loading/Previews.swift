import Synchronization

/// The pictures that someone watches while their bytes arrive, by what they are called in memory: those who want the same
/// made of the same bytes share the decoding.
final class Previews: Sendable {
    private let decoders = Mutex<[CacheKey: PreviewDecoder]>([:])

    /// - Returns: what decodes for the task from now on, the preview that others have seen last, and what is to be freed
    ///   outside of locks.
    func join(_ task: ImageTask) -> (decoder: PreviewDecoder, latest: Image?, old: PreviewDecoder.State?) {
        decoders.withLock { decoders in
            let decoder = decoders[task.memoryKey] ?? PreviewDecoder()
            decoders[task.memoryKey] = decoder
            let (latest, old) = decoder.add(task)
            return (decoder, latest, old)
        }
    }

    func leave(_ task: ImageTask, _ decoder: PreviewDecoder) {
        decoder.remove(task)
        forgetIfIdle(decoder, task.memoryKey)
    }

    /// A decoder stays while it decodes, so that no second one begins beside it.
    func forgetIfIdle(_ decoder: PreviewDecoder, _ key: CacheKey) {
        let dropped = decoders.withLock { decoders in
            decoders[key] === decoder && decoder.isIdle ? decoders.removeValue(forKey: key) : nil
        }
        _ = consume dropped
    }
}
