import ArgumentParser
import Dipper
import Foundation
import Synchronization

/// Plays an animation on the real clock and prints: MB at the peak before the player is made, MB at the peak, milliseconds
/// of the processor for each frame, frames shown, frames due, frames late by more than a display's interval, and the
/// most that one was late, in milliseconds.
struct AnimationChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "animation-child", shouldDisplay: false)

    @Option var file: String
    /// From one frame to the next, in milliseconds.
    @Option var delay: Int
    @Option var bufferCount: Int
    /// Decodes all frames in a row, without a player.
    @Flag var decodesOnly = false

    func run() async throws {
        let image = try CodecRegistry.standard.decode(Data(contentsOf: URL(fileURLWithPath: file)))
        guard let animation = image.animation else { throw BenchError("\(file) does not move") }
        let before = try Machine.memory("VmHWM")
        let start = Self.processorSeconds()
        var shown: [(index: Int, time: Double)] = []
        if decodesOnly {
            let frames = try animation.makeFrameDecoder()
            while let frame = try frames.next() {
                shown.append((shown.count, Double(shown.count * delay) / 1e3))
                keep(frame)
            }
        } else {
            shown = await play(image)
        }
        let processor = Self.processorSeconds() - start
        let peak = try Machine.memory("VmHWM")
        // How far each was behind the one that was earliest.
        let behind = shown.map { $0.time - Double($0.index * delay) / 1e3 }
        let late = behind.map { ($0 - (behind.min() ?? 0)) * 1e3 }
        print(
            before, peak, processor * 1e3 / Double(animation.frameCount), shown.count, animation.frameCount,
            late.count { $0 > 1e3 / 60 }, late.max() ?? .nan)
    }

    private func play(_ image: Image) async -> [(index: Int, time: Double)] {
        let shown = Mutex<[(index: Int, time: Double)]>([])
        let player = AnimatedImage(image, options: AnimationOptions(loop: .never, bufferCount: bufferCount))
        await withCheckedContinuation { end in
            player.onFrame { _, index in
                let time = monotonicSeconds()
                shown.withLock { $0.append((index, time)) }
            }
            .onFinish { end.resume() }
            .start()
        }
        return shown.withLock { $0 }
    }

    /// Seconds of the processor that all threads have had.
    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}
