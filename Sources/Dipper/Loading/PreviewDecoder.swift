import Foundation
import Synchronization

/// Decides when the bytes that have come so far are worth a preview, for all who wait for one picture.
final class PreviewDecoder: Sendable {
    private struct State {
        var progressive = ProgressiveJPEG()
        var isBusy = false
        var hasBegun = false
        var viewers: [ImageTask] = []
        var latest: Image?
        /// What came while the last one was being made.
        var missed: Data?

        mutating func take(_ bytes: Data) -> Data? {
            hasBegun = true
            guard let length = progressive.preview(in: bytes) else { return nil }
            isBusy = true
            return bytes.prefix(length)
        }
    }

    private let state = Mutex(State())

    /// The bytes to make a preview of; `nil` if there is nothing new to see, or the last one is still being made: they
    /// have their turn then.
    func take(_ bytes: Data) -> Data? {
        let (taken, old) = state.withLock { state -> (Data?, Data?) in
            if state.isBusy { return (nil, exchange(&state.missed, with: bytes)) }
            return (state.take(bytes), nil)
        }
        withExtendedLifetime(old) {}
        return taken
    }

    /// The bytes are of no picture that comes coarse first.
    var isPointless: Bool {
        state.withLock { $0.hasBegun && $0.progressive.isProgressive == false }
    }

    /// Someone waits for it now.
    var isUrgent: Bool { state.withLock { $0.viewers }.contains { $0.lane == .fast } }

    /// Nobody would see it.
    var isCancelled: Bool { state.withLock { $0.viewers.isEmpty } }

    /// - Returns: those who are to see what was made.
    func made(_ image: Image) -> [ImageTask] {
        let (viewers, old) = state.withLock { ($0.viewers, exchange(&$0.latest, with: image)) }
        withExtendedLifetime(old) {}
        return viewers
    }

    /// The bytes that were taken have been seen to, and shown.
    /// - Returns: the bytes to make the next preview of.
    func done() -> Data? {
        let (next, missed) = state.withLock { state -> (Data?, Data?) in
            state.isBusy = false
            let missed = exchange(&state.missed, with: nil)
            return (missed.flatMap { state.take($0) }, missed)
        }
        withExtendedLifetime(missed) {}
        return next
    }

    // MARK: Viewers

    /// - Returns: the preview that the others have seen last.
    func add(_ task: ImageTask) -> Image? {
        state.withLock { state in
            state.viewers.append(task)
            return state.latest
        }
    }

    /// True if that was the last one.
    func remove(_ task: ImageTask) -> Bool {
        state.withLock { state in
            state.viewers.removeAll { $0 === task }
            return state.viewers.isEmpty
        }
    }
}
