import Synchronization

/// Lets go of the memory that is kept for the next pictures when memory gets short, and keeps none while it is gone.
final class PixelPressure: Sendable {
    private final class Pause: Sendable {
        init() { PixelMemory.pausePooling() }
        deinit { PixelMemory.resumePooling() }
    }

    private let pause = Mutex<Pause?>(nil)

    func follow(_ level: MemoryPressure) {
        let next = level == .severe ? Pause() : nil
        let last = pause.withLock { exchange(&$0, with: next) }
        _ = consume last
        if level == .moderate { PixelMemory.trim() }
    }
}
