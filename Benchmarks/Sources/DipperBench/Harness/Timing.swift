import Foundation

/// The time that a piece of work took, in milliseconds.
struct Timing {
    /// The processor time of all threads that worked on it together.
    let processor: Double
    let wall: Double

    init(processor: Double, wall: Double) {
        self.processor = processor
        self.wall = wall
    }

    /// Measures work that is done on the caller's thread, or with `ofProcess` by all threads of the process.
    init(ofProcess: Bool = false, _ body: () throws -> Void) rethrows {
        let processor = Self.processorSeconds(ofProcess: ofProcess)
        let wall = monotonicSeconds()
        try body()
        self.wall = (monotonicSeconds() - wall) * 1e3
        self.processor = (Self.processorSeconds(ofProcess: ofProcess) - processor) * 1e3
    }

    /// Returns the processor time of the calling thread, or of all threads of the process, in seconds.
    static func processorSeconds(ofProcess: Bool = false) -> Double {
        var time = timespec()
        clock_gettime(ofProcess ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9
    }
}

/// A competitor that is compared by processor time, with wall time in addition.
struct TimedCompetitor {
    let name: String
    let setting: String
    let measure: () throws -> Timing
}

extension Figures {
    /// The suffix that turns the name of a setting into that of its wall times.
    static let onTheClock = ", clock"

    /// Runs the competitors in turns, and keeps the medians of processor time under the setting and of wall time under
    /// the setting with the suffix ``onTheClock``.
    mutating func measure(rounds: Int, _ turns: [TimedCompetitor]) async throws {
        var samples = [[Timing]](repeating: [], count: turns.count)
        for round in 0...rounds {
            for (number, turn) in turns.enumerated() {
                let sample = try turn.measure()
                if round > 0 { samples[number].append(sample) }
            }
        }
        for (turn, own) in zip(turns, samples) {
            let (processor, wall) = (own.map(\.processor), own.map(\.wall))
            self[turn.name, turn.setting] = processor.median
            self[turn.name, turn.setting + Self.onTheClock] = wall.median
            say(
                "  \(turn.setting) · \(turn.name): \(processor.median.short) (from \((processor.min() ?? .nan).short)), "
                    + "clock \(wall.median.short) (from \((wall.min() ?? .nan).short))")
        }
    }
}
