import Foundation
import Synchronization

/// Decides when the bytes that have come so far are worth a preview, for all who wait for one picture. One preview is made
/// at a time; the thread that bytes come on only notes them.
final class PreviewDecoder: Sendable {
    struct State {
        var progressive = ProgressiveJPEG()
        var isBusy = false
        var viewers: [ObjectIdentifier: ImageTask] = [:]
        var latest: Image?
        /// Bytes that have arrived since the last look.
        var arrived: Data?
        /// Goes up when all viewers have left and another one comes: the bytes are those of another fetch then.
        var round = 0
    }

    private let state = Mutex(State())

    /// Notes what has come so far.
    /// - Returns: true if the caller has the bytes looked at, by ``run(_:)``; else that is being done.
    func arrived(_ bytes: Data) -> Bool {
        let (isFirst, old) = state.withLock { state in
            let old = exchange(&state.arrived, with: bytes)
            return (!exchange(&state.isBusy, with: true), old)
        }
        withExtendedLifetime(old) {}
        return isFirst
    }

    /// Looks at what has come, and at what comes meanwhile, on a decoding thread.
    /// - Parameter make: makes a preview of bytes.
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

    /// Nothing looks at the bytes: the queue is ending.
    func giveUp() { state.withLock { $0.isBusy = false } }

    /// Whether the bytes are of no picture that comes coarse first.
    var isPointless: Bool { state.withLock { $0.progressive.isProgressive == false } }

    /// Someone waits for it now.
    var isUrgent: Bool { state.withLock { Array($0.viewers.values) }.contains { $0.queue == .fast } }

    /// Nobody would see it.
    var isCancelled: Bool { state.withLock { $0.viewers.isEmpty } }

    // MARK: Viewers

    /// - Returns: the preview that the others have seen last, and what is left of an earlier fetch: callers hold locks, and
    ///   free it when they have let go of them.
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

    /// Whether nobody waits for a preview, and none is being made.
    var isIdle: Bool { state.withLock { $0.viewers.isEmpty && !$0.isBusy } }
}
