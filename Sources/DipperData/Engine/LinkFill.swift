/// The number of transfers that keep a link busy, learnt from the latest ones: with each more, another body arrives in the
/// time that one takes with its wait.
struct LinkFill {
    private struct Answer {
        let wait: Duration
        let body: Range<Duration>
    }

    private static let remembered = 16
    /// The part of the link that is enough. More would stand in the queues of the link, and urgent work behind them.
    private static let enough = 0.9

    /// At least 1.
    private(set) var transfers = 1
    private var answers: [Answer] = []

    /// Learns from a transfer that has ended and was not held back.
    mutating func add(_ metrics: TransferMetrics, endedAt now: Duration) {
        guard metrics.total > .zero, metrics.firstByte <= metrics.total else { return }
        if answers.count == Self.remembered { answers.removeFirst() }
        answers.append(
            Answer(wait: metrics.firstByte, body: now - (metrics.total - metrics.firstByte)..<now))
        transfers = needed
        // The first bodies take longer than the link needs, because new connections begin slowly.
        if transfers > 1, answers.count < Self.remembered { transfers += 1 }
    }

    private var needed: Int {
        let most = 1_000_000
        // Most waits are longer than the link's own, because answers of other transfers come first.
        let wait = answers.map(\.wait).sorted()[answers.count / 4]
        let body = busyTime / answers.count
        guard body > .zero else { return wait > .zero ? most : 1 }
        return Int(min((Self.enough * (1 + wait / body)).rounded(.up), Double(most)))
    }

    /// The time in which at least one of the bodies arrived.
    private var busyTime: Duration {
        var (sum, end) = (Duration.zero, Duration.seconds(-1_000_000_000))
        for body in answers.map(\.body).sorted(by: { $0.lowerBound < $1.lowerBound }) {
            sum += max(.zero, body.upperBound - max(end, body.lowerBound))
            end = max(end, body.upperBound)
        }
        return sum
    }
}
