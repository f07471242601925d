import Foundation
import SchedulerLoad

/// The measurement of the scheduler's cost per event, with a short and a long queue.
struct SchedulerOperations: Comparison {
    let name = "scheduler"
    let title = "Scheduler operations"

    private static let few = "1,000 queued"
    private static let many = "1,000,000 queued"
    private static let events = [
        "submit a prefetch", "finish one and start the next", "promote", "demote",
        "cancel a task", "cancel a job",
    ]

    func run(_ bench: Bench) async throws -> [Table] {
        let loads = [
            (Self.few, try SchedulerLoad(queued: 1_000)), (Self.many, try SchedulerLoad(queued: 1_000_000)),
        ]
        var samples: [String: [String: [Double]]] = [:]
        for round in 0...bench.rounds(15) {
            for (setting, load) in loads {
                let figures = try Self.nanoseconds(load)
                guard round > 0 else { continue }
                for (event, figure) in zip(Self.events, figures) {
                    samples[event, default: [:]][setting, default: []].append(figure)
                }
            }
        }
        var figures = Figures()
        for event in Self.events {
            for (setting, _) in loads { figures[event, setting] = samples[event]?[setting]?.median ?? .nan }
        }
        return [table(figures)]
    }

    /// Returns the nanoseconds per operation of each of `events`.
    private static func nanoseconds(_ load: SchedulerLoad) throws -> [Double] {
        let batches = 50
        var sums = [Double](repeating: 0, count: events.count)
        for _ in 0..<batches {
            sums[0] += load.submit()
            sums[1] += try load.finish()
            let (promote, demote, cancel) = try load.promoteDemoteCancel()
            sums[2] += promote
            sums[3] += demote
            sums[4] += cancel
            sums[5] += try load.cancelJobs()
        }
        return sums.map { $0 * 1e9 / Double(batches * load.batch) }
    }

    private func table(_ figures: Figures) -> Table {
        var table = Table(
            "An event, by the number of queued prefetches",
            says:
                "The scheduler alone, without lock or thread. Promotions, demotions and cancellations pick queued "
                + "jobs at random; submitting and finishing go round the queue.",
            unit: "ns per event", competitors: Self.events, settings: [Self.few, Self.many], figures: figures)
        for event in Self.events {
            for setting in [Self.few, Self.many] {
                table.checks.append(
                    Check("\(event), \(setting)", figures[event, setting] / 1e3, .atMost, 1, " µs"))
            }
            table.checks.append(
                Check(
                    "\(event), 1,000,000 ÷ 1,000", figures[event, Self.many] / figures[event, Self.few],
                    .atMost, 1.5))
        }
        return table
    }
}
