import Synchronization

/// The preview decoders of pictures whose bytes are arriving, by the memory key of the picture. Tasks that want the
/// same picture share a decoder.
final class Previews: Sendable {
    private let decoders = Mutex<[CacheKey: PreviewDecoder]>([:])

    /// Adds a task to the viewers of its picture's previews.
    /// - Returns: the decoder that the task has joined, the preview that other viewers received last, and the state
    ///   that the caller must free after it has released its locks.
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

    /// Forgets a decoder that has nothing to do. A decoder that is busy stays, so that no second one begins beside it.
    func forgetIfIdle(_ decoder: PreviewDecoder, _ key: CacheKey) {
        let dropped = decoders.withLock { decoders in
            decoders[key] === decoder && decoder.isIdle ? decoders.removeValue(forKey: key) : nil
        }
        _ = consume dropped
    }
}
