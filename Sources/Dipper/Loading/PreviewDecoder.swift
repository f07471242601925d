import Foundation
import Synchronization

/// Decides when the bytes received so far are worth a preview, for all tasks that wait for one picture.
///
/// One preview is made at a time. The thread that receives bytes only notes them.
final class PreviewDecoder: Sendable {
    struct State {
        var progressive = ProgressiveJPEG()
        var isBusy = false
        var viewers: [ObjectIdentifier: ImageTask] = [:]
        var latest: Image?
        /// The bytes received so far, if they have not been looked at.
        var arrived: Data?
        /// The number of the fetch. It increases when a task comes after all viewers have left, because the bytes are
        /// then those of another fetch.
        var round = 0
    }

    private let state = Mutex(State())

    /// Notes the bytes received so far.
    /// - Returns: `true` if the caller must have ``run(_:)`` called; `false` if it is running already.
    func arrived(_ bytes: Data) -> Bool {
        let (isFirst, old) = state.withLock { state in
            let old = exchange(&state.arrived, with: bytes)
            return (!exchange(&state.isBusy, with: true), old)
        }
        withExtendedLifetime(old) {}
        return isFirst
    }

    /// Makes previews from the bytes that have arrived, and from those that arrive meanwhile.
    /// - Parameter make: makes a preview from bytes.
    func run(_ make: (Data) -> Image?) {
        while let (bytes, looked, round) = next() {
            var progressive = looked
            let length = progressive.preview(in: bytes)
            let isWanted = state.withLock { state in
                guard state.round == round else { return false }
                state.progressive = progressive
                return !state.viewers.isEmpty
            }
            guard isWanted, let length, let image = make(bytes.prefix(length)) else { continue }
            let (viewers, old) = state.withLock { state -> ([ImageTask], Image?) in
                guard state.round == round else { return ([], nil) }
                return (Array(state.viewers.values), exchange(&state.latest, with: image))
            }
            withExtendedLifetime(old) {}
            for task in viewers { task.tellPreview(image) }
        }
    }

    private func next() -> (Data, ProgressiveJPEG, Int)? {
        state.withLock { state in
            guard let bytes = exchange(&state.arrived, with: nil) else {
                state.isBusy = false
                return nil
            }
            return (bytes, state.progressive, state.round)
        }
    }

    /// Takes note that the queue is ending and ``run(_:)`` will not be called.
    func giveUp() { state.withLock { $0.isBusy = false } }

    /// Whether the bytes are of a picture that has no previews.
    var isPointless: Bool { state.withLock { $0.progressive.isProgressive == false } }

    /// Whether one of the viewers is an urgent call.
    var isUrgent: Bool { state.withLock { Array($0.viewers.values) }.contains { $0.queue == .fast } }

    /// Whether a preview would have no viewer.
    var isCancelled: Bool { state.withLock { $0.viewers.isEmpty } }

    // MARK: Viewers

    /// Adds a viewer.
    /// - Returns: the preview that the other viewers received last, and the state of an earlier fetch. Callers hold
    ///   locks, and free that state after they have released them.
    func add(_ task: ImageTask) -> (latest: Image?, old: State?) {
        state.withLock { state in
            var old: State?
            if state.viewers.isEmpty {
                old = state
                state = State(isBusy: state.isBusy, round: state.round + 1)
            }
            state.viewers[ObjectIdentifier(task)] = task
            return (state.latest, old)
        }
    }

    func remove(_ task: ImageTask) {
        let dropped = state.withLock { $0.viewers.removeValue(forKey: ObjectIdentifier(task)) }
        _ = consume dropped
    }

    /// Whether no task waits for a preview and none is being made.
    var isIdle: Bool { state.withLock { $0.viewers.isEmpty && !$0.isBusy } }
}
