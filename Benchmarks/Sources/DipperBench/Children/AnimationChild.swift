import ArgumentParser
import Dipper
import Foundation
import Synchronization

/// A child process that plays an animation on the real clock and prints: MB at the peak before the player is made, MB
/// at the peak, milliseconds of processor time per frame, frames shown, frames due, frames late by more than a
/// display's interval, and the largest delay of a frame in milliseconds. The last two numbers follow once more, for a
/// thread that only sleeps meanwhile.
struct AnimationChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "animation-child", shouldDisplay: false)

    @Option var file: String
    /// The time from one frame to the next, in milliseconds.
    @Option var delay: Int
    @Option var bufferCount: Int
    /// Whether to decode all frames in a row, without a player.
    @Flag var decodesOnly = false

    func run() async throws {
        let image = try CodecRegistry.standard.decode(Data(contentsOf: URL(fileURLWithPath: file)))
        guard let animation = image.animation else { throw BenchError("\(file) does not move") }
        let before = try Machine.memory("VmHWM")
        let start = Timing.processorSeconds(ofProcess: true)
        var shown: [(index: Int, time: Double)] = []
        var slept: [(index: Int, time: Double)] = []
        if decodesOnly {
            let frames = try animation.makeFrameDecoder()
            while let frame = try frames.next() {
                shown.append((shown.count, Double(shown.count * delay) / 1e3))
                keep(frame)
            }
        } else {
            let sleeper = Sleeper(count: animation.frameCount, delay: delay)
            shown = await play(image)
            slept = sleeper.times()
        }
        let processor = Timing.processorSeconds(ofProcess: true) - start
        let peak = try Machine.memory("VmHWM")
        let (late, sleptLate) = (lateness(shown), lateness(slept))
        print(
            before, peak, processor * 1e3 / Double(animation.frameCount), shown.count, animation.frameCount,
            late.count { $0 > 1e3 / 60 }, late.max() ?? .nan,
            sleptLate.count { $0 > 1e3 / 60 }, sleptLate.max() ?? .nan)
    }

    /// Returns the delay of each frame relative to the most punctual one, in milliseconds.
    private func lateness(_ shown: [(index: Int, time: Double)]) -> [Double] {
        let behind = shown.map { $0.time - Double($0.index * delay) / 1e3 }
        return behind.map { ($0 - (behind.min() ?? 0)) * 1e3 }
    }

    /// A thread that only wakes when frames are due, to measure how punctual any thread is on this machine.
    private final class Sleeper: Sendable {
        private let woken = Mutex<[(index: Int, time: Double)]>([])
        private let end = DispatchSemaphore(value: 0)

        init(count: Int, delay: Int) {
            Thread.detachNewThread { [self] in
                let start = monotonicSeconds()
                for index in 0..<count {
                    usleep(UInt32(max(0, (start + Double(index * delay) / 1e3 - monotonicSeconds()) * 1e6)))
                    let time = monotonicSeconds()
                    woken.withLock { $0.append((index, time)) }
                }
                end.signal()
            }
        }

        func times() -> [(index: Int, time: Double)] {
            end.wait()
            return woken.withLock { $0 }
        }
    }

    private func play(_ image: Image) async -> [(index: Int, time: Double)] {
        let shown = Mutex<[(index: Int, time: Double)]>([])
        let player = AnimationPlayer(image, options: AnimationOptions(loop: .never, bufferCount: bufferCount))
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
}
