import Foundation
import Synchronization

/// Decides when the bytes that have come so far are worth a preview.
final class PreviewDecoder: Sendable {
    private struct State {
        var progressive = ProgressiveJPEG()
        var isBusy = false
        var hasBegun = false
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

    func done() { state.withLock { $0.isBusy = false } }
}
