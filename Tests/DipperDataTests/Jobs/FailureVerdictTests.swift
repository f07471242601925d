import Testing

@testable import DipperData

@Suite("The consequences of a failed attempt", .timeLimit(.minutes(5)))
struct FailureVerdictTests {
    private struct Row: Sendable {
        let error: DipperError
        var isOffline = false
        var mayWait = true
        var policy = RetryPolicy.fixed(.seconds(2), retries: 3)
        var timeout: Duration?
        var spent = Duration.zero
        var failures = 1
        var elapsed = Duration.zero
        let verdict: FailureVerdict
    }

    private static let short: RetryPolicy = {
        var policy = RetryPolicy.fixed(.seconds(2))
        policy.deadline = .seconds(10)
        return policy
    }()
    private static let endless: RetryPolicy = {
        var policy = RetryPolicy.fixed(.seconds(2))
        policy.deadline = nil
        return policy
    }()
    private static let busy: DipperError = {
        var error = DipperError.status(503)
        error.retryAfter = .seconds(7)
        return error
    }()

    private static let rows = [
        // A failure that cannot pass ends the call, wherever it comes from.
        Row(error: .status(404), verdict: .end),
        Row(error: .rejected, verdict: .end),
        Row(error: .status(404), isOffline: true, verdict: .end),
        // Each further failure asks the policy.
        Row(error: .connectionLost, verdict: .retry(after: .seconds(2))),
        Row(error: .connectionLost, failures: 3, verdict: .retry(after: .seconds(2))),
        Row(error: .connectionLost, failures: 4, verdict: .end),
        Row(error: .connectionLost, policy: .never, verdict: .end),
        Row(error: .connectionLost, policy: .exponential(base: .seconds(4)), verdict: .retry(after: .seconds(2))),
        // The server's wish counts.
        Row(error: busy, verdict: .retry(after: .seconds(7))),
        Row(error: busy, policy: short, elapsed: .seconds(4), verdict: .end),
        // A call whose time would be up before the next attempt ends at once.
        Row(error: .truncated, timeout: .seconds(10), spent: .seconds(7), verdict: .retry(after: .seconds(2))),
        Row(error: .truncated, timeout: .seconds(10), spent: .seconds(8), verdict: .end),
        // Without a way to the host the failures and the time limit do not count, but the deadline does.
        Row(error: .unreachable, isOffline: true, policy: endless, verdict: .waitForNetwork(nil)),
        Row(
            error: .unreachable, isOffline: true, policy: endless, timeout: .seconds(1), spent: .seconds(5),
            failures: 9, verdict: .waitForNetwork(nil)),
        Row(
            error: .unreachable, isOffline: true, policy: short, elapsed: .seconds(4),
            verdict: .waitForNetwork(.seconds(6))),
        Row(error: .unreachable, isOffline: true, policy: short, elapsed: .seconds(10), verdict: .end),
        Row(error: .unreachable, isOffline: true, policy: .never, verdict: .end),
        // No call waits for the network beside a source that can be reached.
        Row(error: .unreachable, isOffline: true, mayWait: false, policy: endless, verdict: .end),
    ]

    @Test("a call ends, tries again or waits as its policy, time limit and network say", arguments: rows.indices)
    func verdict(number: Int) {
        let row = Self.rows[number]
        let failed = FailedAttempt(
            error: row.error, isOffline: row.isOffline, mayWait: row.mayWait, spent: row.spent)
        let verdict = failed.verdict(
            by: row.policy, timeout: row.timeout, after: (row.failures, row.elapsed), unit: 0.5)
        #expect(verdict == row.verdict)
    }

    @Test("a failure without a way to the host does not count, but its time does")
    func counts() {
        var failures = FailureCount()
        let steps: [(isOffline: Bool, at: Int, count: Int, elapsed: Int)] = [
            (true, 10, 0, 0), (false, 12, 1, 2), (false, 15, 2, 5),
        ]
        for step in steps {
            let after = failures.add(isOffline: step.isOffline, at: .seconds(step.at))
            #expect(after.count == step.count)
            #expect(after.elapsed == .seconds(step.elapsed))
        }
    }

    @Test("the job waits as long as its most impatient call, and asks the next source when no call waits")
    func verdicts() {
        var bench = Bench()
        let ids = (0..<4).map { _ in bench.get("a", .fast).task }
        var verdicts = FailureVerdicts()
        #expect(!verdicts.asksForNextSource)
        verdicts.add(.end, on: ids[0])
        verdicts.add(.takeKept, on: ids[1])
        #expect(verdicts.asksForNextSource)
        verdicts.add(.retry(after: .seconds(5)), on: ids[2])
        verdicts.add(.retry(after: .seconds(3)), on: ids[3])
        #expect(!verdicts.asksForNextSource)
        #expect(verdicts.delay == .seconds(3))
        #expect(verdicts.ending == [ids[0]] && verdicts.answered == [ids[1]])
        verdicts.goOn(without: [])
        #expect(verdicts.ending.isEmpty && verdicts.answered == [ids[1]])
    }

    @Test("only calls that wait for the network have a limit for it")
    func limits() {
        var bench = Bench()
        let ids = (0..<3).map { _ in bench.get("a", .fast).task }
        var verdicts = FailureVerdicts()
        verdicts.add(.waitForNetwork(.seconds(4)), on: ids[0])
        verdicts.add(.waitForNetwork(nil), on: ids[1])
        verdicts.add(.end, on: ids[2])
        #expect(verdicts.limits == [ids[0]: .seconds(4)])
        #expect(!verdicts.asksForNextSource)
    }

    @Test("a job whose failure may pass is parked, until the network returns or the back-off is over")
    func parking() {
        let lost = FailedAttempt(error: .connectionLost, isOffline: false)
        #expect(lost.parking(after: .seconds(3), goesOn: false) == .backOff(.seconds(3)))
        #expect(lost.parking(after: nil, goesOn: false) == .backOff(.zero))
        #expect(lost.parking(after: .seconds(3), goesOn: true) == .backOff(.zero))
        let offline = FailedAttempt(error: .unreachable, isOffline: true)
        #expect(offline.parking(after: nil, goesOn: false) == .untilNetworkReturns)
        let final = FailedAttempt(error: .status(404), isOffline: false)
        #expect(final.parking(after: nil, goesOn: false) == nil)
        #expect(final.parking(after: nil, goesOn: true) == .backOff(.zero))
    }
}
