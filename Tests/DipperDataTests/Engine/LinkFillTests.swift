import Testing

@testable import DipperData

@Suite("As many transfers fill a link as bodies arrive while an answer is waited for", .timeLimit(.minutes(1)))
struct LinkFillTests {
    /// - Parameter count: the number of transfers that have ended, one at the end of each body's time.
    private func transfers(wait: Int, body: Int, count: Int = 16, beside: Int = 1) -> Int {
        var (fill, now) = (LinkFill(), Duration.seconds(100))
        for _ in 0..<count {
            // With several at once each body takes longer by their number, but one ends in the time of one.
            now += .milliseconds(body)
            fill.add(metrics(wait, body * beside), endedAt: now)
        }
        return fill.transfers
    }

    private func metrics(_ wait: Int, _ body: Int) -> TransferMetrics {
        var metrics = TransferMetrics()
        (metrics.firstByte, metrics.total) = (.milliseconds(wait), .milliseconds(wait + body))
        return metrics
    }

    @Test(
        "as few transfers run as use nine tenths of the link",
        arguments: [
            (wait: 0, body: 100, count: 1), (11, 100, 1), (12, 100, 2), (122, 100, 2), (123, 100, 3), (300, 100, 4),
        ])
    func number(wait: Int, body: Int, count: Int) {
        #expect(transfers(wait: wait, body: body) == count)
        for answers in 1...15 {
            #expect(
                transfers(wait: wait, body: body, count: answers) == (count == 1 ? 1 : count + 1),
                "one more for the first answers, whose connections are new")
        }
    }

    @Test("transfers beside one another do not make it seem that bodies take longer", arguments: [2, 4, 6])
    func beside(number: Int) {
        #expect((3...4).contains(transfers(wait: 300, body: 100, count: 64, beside: number)))
    }

    @Test("few answers that take long do not count, and what is old is forgotten")
    func outliers() {
        var fill = LinkFill()
        for number in 1...16 {
            fill.add(metrics(number % 4 == 0 ? 5_000 : 20, 100), endedAt: .milliseconds(100 * number))
        }
        #expect(fill.transfers == 2)
        for number in 17...32 { fill.add(metrics(250, 100), endedAt: .milliseconds(100 * number)) }
        #expect(fill.transfers == 4)
    }

    @Test("without a body there is only the wait; times that make no sense teach nothing")
    func extremes() {
        #expect(transfers(wait: 50, body: 0) > 1_000)
        var fill = LinkFill()
        fill.add(TransferMetrics(), endedAt: .seconds(1))
        var odd = TransferMetrics()
        (odd.firstByte, odd.total) = (.seconds(5), .seconds(1))
        fill.add(odd, endedAt: .seconds(1))
        #expect(fill.transfers == 1)
    }
}
