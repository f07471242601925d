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
    }

    private let state = Mutex(State())

    /// The bytes to make a preview of; `nil` if there is nothing new to see, or the last one is still being made.
    func take(_ bytes: Data) -> Data? {
        state.withLock { state in
            guard !state.isBusy else { return nil }
            state.hasBegun = true
            guard let length = state.progressive.preview(in: bytes) else { return nil }
            state.isBusy = true
            return bytes.prefix(length)
        }
    }

    /// The bytes are of no picture that comes coarse first.
    var isPointless: Bool {
        state.withLock { $0.hasBegun && $0.progressive.isProgressive == false }
    }

    /// Nobody would see it.
    var isCancelled: Bool { state.withLock { $0.viewers.isEmpty } }

    /// The bytes that were taken have been seen to.
    /// - Parameter image: the preview, if they made one.
    /// - Returns: those who are to see it.
    func done(_ image: Image?) -> [ImageTask] {
        state.withLock { state in
            state.isBusy = false
            guard let image else { return [] }
            state.latest = image
            return state.viewers
        }
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
