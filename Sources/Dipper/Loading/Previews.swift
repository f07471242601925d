import Synchronization

/// The pictures that someone watches while their bytes arrive, by what they are called in memory: who wants the same made
/// of the same bytes shares the decoding.
final class Previews: Sendable {
    private let decoders = Mutex<[CacheKey: PreviewDecoder]>([:])

    /// - Returns: what decodes for the task from now on, and the preview that others have seen last.
    func join(_ task: ImageTask) -> (decoder: PreviewDecoder, latest: Image?) {
        decoders.withLock { decoders in
            let decoder = decoders[task.memoryKey] ?? PreviewDecoder()
            decoders[task.memoryKey] = decoder
            return (decoder, decoder.add(task))
        }
    }

    func leave(_ task: ImageTask, _ decoder: PreviewDecoder) {
        decoders.withLock { decoders in
            // Others may have begun anew under the same name.
            if decoder.remove(task), decoders[task.memoryKey] === decoder { decoders[task.memoryKey] = nil }
        }
    }
}
