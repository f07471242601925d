import Synchronization

/// Releases the memory that is kept for later pictures when memory becomes short, and keeps none until the pressure
/// ends.
///
/// Displays and caches release their pictures a little later, and that memory must go back to the system.
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
