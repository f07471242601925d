import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("The state of a job, event by event", .timeLimit(.minutes(5)))
struct JobStateTests {
    private struct NoTransfer: Transfer {
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
        func copyBody(_ reply: @escaping @Sendable (Data, Int) -> Void) {}
    }

    private let history = StoreHistory()
    private let key = CacheKey(url("a"))

    private func call(_ request: DataRequest = DataRequest(url("a"))) -> Call {
        let configuration = DataCache.Configuration()
        return Call(
            request, key: key,
            defaults: .init(
                cachePolicy: configuration.cachePolicy, freshness: configuration.freshness,
                retryPolicy: configuration.retryPolicy, timeout: nil, callbackQueue: .inPlace))
    }

    private func begun() -> FetchJob.State {
        FetchJob.State(sources: JobSources(call()))
    }

    private func partial(_ count: Int) -> PartialBody {
        PartialBody(bytes: Data(count: count), headers: [:], url: url("a").absoluteString, validator: "\"v\"")
    }

    /// Takes the job's turn, begins an attempt and sends its request.
    private func attempt(_ state: inout FetchJob.State, isThrottled: Bool = false) -> Int? {
        _ = state.takeTurn(in: .slow, isThrottled: isThrottled, history.claim(key), history)
        let begun = state.begin(confirming: nil, maximumRedirects: 3, at: .zero)
        return begun.flatMap { state.send($0.attempt.request, of: $0.attempt, at: 0) }?.number
    }

    private func entry(_ text: String) -> FetchJob.Found {
        let info = EntryInfo(url: "", headers: [:], stored: 0)
        return .init(value: StoredData(data: Data(text.utf8), info: info), source: .memory, place: key)
    }

    @Test("a job's demands are those of all calls that have joined it")
    func demands() {
        var demand = JobDemand()
        demand.add(call(DataRequest(url("a")).with(\.cachePolicy, .memoryOnly)))
        #expect(demand.keepsInMemory && !demand.keepsOnDisk && !demand.insistsOnNetwork && !demand.hasTimeLimits)
        demand.add(call(DataRequest(url("a")).with(\.cachePolicy, .bypass).with(\.timeout, .seconds(3))))
        #expect(demand.keepsInMemory && !demand.keepsOnDisk && demand.insistsOnNetwork && demand.hasTimeLimits)
        demand.add(call(DataRequest(url("a")).with(\.durability, .durable)))
        demand.add(call())
        #expect(demand.keepsOnDisk && demand.durability == .durable)
    }

    @Test("an attempt is under way from its beginning to its failure or its answer")
    func phases() {
        var state = begun()
        #expect(state.current == nil && state.answer == nil)
        let number1 = attempt(&state)
        #expect(number1 != nil)
        #expect(state.current != nil && state.attempts == 1)
        _ = state.failed(.connectionLost, isOffline: false, at: .seconds(1))
        #expect(state.current == nil && state.answer == nil)
        let number2 = attempt(&state)
        #expect(number2 ?? 0 > number1 ?? 0)
        let dropped = state.apply(.found(entry("a"), isAnswer: true)).phase
        guard case .attempting = dropped else {
            Issue.record("the attempt is returned, to be released without a lock")
            return
        }
        #expect(state.current == nil && state.answer?.response.data == Data("a".utf8))
        // The next round drops the answer.
        let number3 = attempt(&state)
        #expect(number3 ?? 0 > number2 ?? 0)
        #expect(state.answer == nil && state.attempts == 3)
    }

    @Test("a late event of one transfer changes nothing of the next one")
    func lateEvents() throws {
        var state = begun()
        let first = try #require(attempt(&state))
        // The transfer has ended before the job knew it.
        _ = state.transferEnded()
        let other = FetchJob.State.Orders(queue: .fast, isThrottled: false, isAborted: false)
        let late = state.started(NoTransfer(), number: first, told: other)
        #expect(late == nil && state.current?.transfer == nil)
        let old = state.unreachable(since: nil, received: 5).watched
        _ = state.failed(.connectionLost, isOffline: false, at: .zero)
        let second = try #require(attempt(&state))
        let orders = state.started(NoTransfer(), number: second, told: other)
        #expect(orders?.queue == .slow && orders?.isAborted == false && state.current?.transfer != nil)
        let ended = state.unreachable(since: old, received: 5)
        #expect(ended.watched == nil && ended.lost == nil && state.current?.isLost == false)
        let first5 = state.unreachable(since: nil, received: 5)
        #expect(first5.watched?.number == second && first5.lost == nil)
        let alive = state.unreachable(since: first5.watched, received: 6)
        #expect(alive.watched?.received == 6 && alive.lost == nil && state.current?.isLost == false)
        let lost = state.unreachable(since: alive.watched, received: 6)
        #expect(lost.watched == nil && lost.lost != nil && state.current?.isLost == true)
        let present = try #require(state.current?.attempt)
        let aborted = state.apply(.abort)
        #expect(aborted.transfer != nil && state.isAborted && state.current?.transfer == nil)
        let isOver = state.send(present.request, of: present, at: 0) == nil
        #expect(isOver)
    }

    @Test("a transfer hears of what was decided while it was being started, and of nothing twice")
    func orders() throws {
        var state = begun()
        let number = try #require(attempt(&state))
        var told = FetchJob.State.Orders(queue: .slow, isThrottled: false, isAborted: false)
        var news = state.started(NoTransfer(), number: number, told: told)
        #expect(news == nil)
        let throttled = state.apply(.throttle(true, at: .zero))
        let moved = state.apply(.changeQueue(.fast))
        #expect(throttled.transfer != nil && moved.transfer != nil && state.current?.wasThrottled == true)
        news = state.started(NoTransfer(), number: number, told: told)
        #expect(news == .init(queue: .fast, isThrottled: true, isAborted: false))
        told = try #require(news)
        news = state.started(NoTransfer(), number: number, told: told)
        #expect(news == nil)
        _ = state.apply(.abort)
        news = state.started(NoTransfer(), number: number, told: told)
        #expect(news?.isAborted == true)
    }

    @Test("a wait for a timer ends with another wait, with its end, or with the job's turn, and gives the timer back")
    func backingOff() {
        let timers = TimerQueue(TimeSource(ManualClock()))
        let ids = (0..<3).map { timers.schedule(after: .seconds(1 + $0)) {} }
        var state = begun()
        let none = state.apply(.endBackOff)
        let first = state.apply(.backOff(until: ids[0]))
        let second = state.apply(.backOff(until: ids[1]))
        let turn = state.apply(.waitForTurn(at: .zero))
        let over = state.apply(.waitForTurn(at: .zero))
        let third = state.apply(.backOff(until: ids[2]))
        let end = state.apply(.endBackOff)
        let unneeded = [none, first, second, turn, over, third, end].map(\.timer)
        #expect(unneeded == [nil, nil, ids[0], ids[1], nil, nil, ids[2]])
        timers.end()
    }

    @Test("an entry that memory has by now answers the job or is kept for a failure, but replaces nothing")
    func foundInMemory() {
        var state = begun()
        _ = state.apply(.found(entry("a"), isAnswer: false))
        _ = state.apply(.found(entry("b"), isAnswer: false))
        #expect(state.findings.found?.value.data == Data("a".utf8) && state.answer == nil)
        #expect(state.confirmable?.value.data == Data("a".utf8))
        _ = state.join(call(DataRequest(url("a")).with(\.cachePolicy, .ignoreCache)), nil)
        #expect(state.confirmable == nil)
        let anew = state.apply(.beginAnew(call()))
        #expect(anew.dropped.found?.value.data == Data("a".utf8) && state.findings.found == nil && state.failure == nil)
    }

    @Test("a beginning for which there was no room is read from disk once, if no task has given up")
    func leftover() {
        var state = begun()
        var bodies = BodyBudget(limit: 100)
        _ = state.join(call(), nil)
        _ = attempt(&state)
        _ = state.interrupted(partial(60), isKeepable: true)
        let dropped = state.findings.park(insteadOf: 60, in: &bodies)
        #expect(dropped.partial?.bytes.count == 60 && state.findings.parked == 0 && state.leftover != nil)
        let taken = state.readBack(partial(60), history.claim(key), history)
        #expect(taken?.isKept == true && state.findings.partial?.bytes.count == 60 && state.leftover == nil)
        let again = state.readBack(partial(70), history.claim(key), history)
        #expect(again?.isKept == false && state.findings.partial?.bytes.count == 60)
        _ = state.apply(.abort)
        let isOver = state.readBack(nil, history.claim(key), history) == nil
        #expect(isOver)
    }

    @Test("a transfer that was held back gives way only with more bytes than its attempt began with")
    func givingWay() {
        var state = begun()
        _ = attempt(&state, isThrottled: true)
        _ = state.interrupted(partial(60), isKeepable: false)
        let gaveWay = state.failed(.connectionLost, isOffline: false, at: .zero)
        #expect(gaveWay.gaveWay)
        // No more bytes have come.
        _ = attempt(&state, isThrottled: true)
        let empty = state.failed(.connectionLost, isOffline: false, at: .zero)
        #expect(!empty.gaveWay)
        // The attempt was not held back.
        _ = attempt(&state)
        _ = state.interrupted(partial(70), isKeepable: false)
        let free = state.failed(.connectionLost, isOffline: false, at: .zero)
        #expect(!free.gaveWay)
    }

    @Test("a server that breaks off after a few bytes each time has failed in the end")
    func ways() {
        var ways = GivenWays()
        let few = (1...17).map { ways.add(bytes: $0) }
        #expect(few == Array(repeating: true, count: 16) + [false])
        let many = (1...40).map { ways.add(bytes: $0 << 16) }
        #expect(many == Array(repeating: true, count: 40))
    }

    @Test("a look-up for a call that joins an attempt leaves the attempt its claim and its beginning")
    func joinedLookUp() throws {
        var state = begun()
        _ = attempt(&state)
        let own = try #require(state.findings.claim)
        _ = state.apply(.lookedUp(nil, partial(5), history.claim(key)))
        #expect(state.findings.claim === own && state.findings.partial == nil)
        history.remove(key, from: .all)
        #expect(own.isRevoked)
    }

    @Test("a removal takes the claim, what was found and the beginning from the next attempt")
    func removal() {
        var state = begun()
        let first = history.claim(key)
        _ = state.apply(.lookedUp(nil, partial(5), first))
        #expect(state.findings.claim === first && state.findings.partial?.bytes.count == 5)
        history.remove(key, from: .all)
        let next = history.claim(key)
        let turn = state.takeTurn(in: .fast, isThrottled: false, next, history)
        #expect(turn.dropped.1.claim === first && turn.dropped.1.partial?.bytes.count == 5)
        #expect(state.findings.claim === next && state.findings.partial == nil)
    }

    @Test("the sources are asked one after the other, and a failure of each is kept")
    func sources() {
        let request = DataRequest(url("a")).with(\.alternatives, [url("b"), url("c")])
        var sources = JobSources(call(request))
        let other = call(request)
        #expect(sources.url == url("a") && sources.remaining.count == 2)
        let failures: [DipperError] = [.status(404), .connectionLost]
        for failure in failures {
            let goesOn = sources.goOn(for: [other], after: failure)
            #expect(goesOn)
        }
        #expect(sources.url == url("c") && sources.remaining.isEmpty && sources.earlierFailures == failures)
        // No call has a source of its own.
        let goesOn = sources.goOn(for: [other], after: .rejected)
        #expect(!goesOn)
        sources.begin(anewFor: other)
        #expect(sources.url == url("a") && sources.earlierFailures.isEmpty && sources.lead === other)
    }
}
