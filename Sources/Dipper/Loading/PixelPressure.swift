import Synchronization

/// Lets go of the memory that is kept for the next pictures when memory gets short, and keeps none as long as it is:
/// what displays and caches let go of comes a little later, and is to go back to the system.
final class PixelPressure: Sendable {
    private final class Pause: Sendable {
        init() { PixelMemory.pausePooling() }
        deinit { PixelMemory.resumePooling() }
    }

    private let pause = Mutex<Pause?>(nil)

    func follow(_ level: MemoryPressure) {
        let next = level == .normal ? nil : Pause()
        let last = pause.withLock { exchange(&$0, with: next) }
        _ = consume last
    }
}
