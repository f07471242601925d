import Synchronization
import TestSupport
import Testing

@Suite("Random calls from eight threads", .timeLimit(.minutes(timeLimit(10))))
struct RandomCallsTests {
    @Test("each call ends once, and no key has two requests at a time unless it was removed", arguments: [false, true])
    func randomCalls(removes: Bool) async throws {
        let seed = removes ? 1 : 0
        let transport = LivelyTransport(seed)
        let cache = TestCache {
            $0.transport = transport
            $0.clock = ContinuousClock()
            $0.memoryLimit = 20_000
            $0.retryPolicy = .fixed(.milliseconds(2), retries: 1)
        }.cache
        let ends = Box<[Int]>([])
        try await onEightThreads { number in
            Caller(cache, ends, removes: removes, seed: seed * 8 + number).call(workload(10_000) / 8)
        }
        await cache.idle()
        #expect(ends.value.allSatisfy { $0 == 1 }, "of \(ends.value.count): \(ends.value.filter { $0 != 1 }.prefix(9))")
        if !removes { #expect(transport.mostAtOnce == 1, "requests for one URL at a time") }
        #expect(transport.count > 60, "most calls are answered by memory")
        #expect(cache.queueCounts == QueueCounts())
        await cache.shutdown()
    }
}

/// Calls a closure on eight threads, with their numbers, and returns when all have come back.
func onEightThreads(
    beside action: () async -> Void = {}, _ work: @escaping @Sendable (Int) -> Void
) async throws {
    let threads = Box(8)
    for number in 0..<8 {
        Thread.detachNewThread {
            work(number)
            threads.update { $0 -= 1 }
        }
    }
    await action()
    try await threads.wait(within: .seconds(54 * timeLimit(10))) { $0 == 0 }
}

extension WatchedState<[Int]> {
    /// Counts how often a task ends, in a place of its own.
    func count(endsOf task: some FetchTask) {
        let number = update { ends in
            ends.append(0)
            return ends.count - 1
        }
        task.onEnd { [self] _ in update { $0[number] += 1 } }
    }
}

private final class Caller {
    private let cache: DataCache
    private let ends: Box<[Int]>
    private let removes: Bool
    private var random: SeededRandom
    private var tasks: [DataTask] = []

    init(_ cache: DataCache, _ ends: Box<[Int]>, removes: Bool, seed: Int) {
        (self.cache, self.ends, self.removes) = (cache, ends, removes)
        random = SeededRandom(UInt64(seed))
    }

    func call(_ count: Int) {
        for _ in 0..<count { step() }
    }

    private func step() {
        let address = url("\(random.below(60))")
        switch random.below(20) {
        case 0: if removes { cache.removeData(for: address) }
        case 1: cache.moveTaskToSlowQueue(address)
        case 2: if random.chance(8) { cache.cancel(address) }
        case 3: if random.chance(200) { cache.cancelAll() }
        case 4: tasks.randomElement(using: &random)?.cancel()
        case 5: tasks.randomElement(using: &random)?.moveToSlowQueue()
        case 6: tasks.randomElement(using: &random)?.priority = random.chance(2) ? .high : .low
        case 7: if let task = tasks.randomElement(using: &random) { _ = (task.state, task.queue, task.attempts) }
        default: break
        }
        let request = DataRequest(address).with(
            \.cachePolicy, random.chance(4) ? .ignoreCache : random.chance(10) ? .bypass : .useCache)
        let task = random.chance(3) ? cache.slowGetData(request) : cache.getData(request)
        ends.count(endsOf: task)
        tasks.append(task)
        // The calls of one thread that are open at a time.
        if tasks.count > 40 { tasks.remove(at: random.below(20)) }
        if random.chance(64) { usleep(UInt32(random.below(2_000))) }
    }
}

/// A transport that answers by itself, soon or at once: with a body, an error or half an answer.
final class LivelyTransport: Transport {
    private struct State {
        var random: SeededRandom
        var open: [URL: Int] = [:]
        var mostAtOnce = 0
        var count = 0
    }

    private let state: Mutex<State>
    private let body: @Sendable (_ kind: Int) -> Data

    /// - Parameter body: returns the body of an answer of a kind, from 0 to 11.
    init(_ seed: Int, body: @escaping @Sendable (Int) -> Data = { Data(repeating: UInt8($0), count: 1_000) }) {
        state = Mutex(State(random: SeededRandom(UInt64(1_000 + seed))))
        self.body = body
    }

    var mostAtOnce: Int { state.withLock { $0.mostAtOnce } }
    var count: Int { state.withLock { $0.count } }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let (kind, delay) = state.withLock { state in
            state.count += 1
            state.open[request.url, default: 0] += 1
            state.mostAtOnce = max(state.mostAtOnce, state.open[request.url] ?? 0)
            return (state.random.below(12), state.random.below(4) == 0 ? state.random.below(3_000) : 0)
        }
        let transfer = LivelyTransfer(receive) { [self] in
            state.withLock { $0.open[request.url, default: 0] -= 1 }
        }
        let answer = { @Sendable [body] in transfer.answer(kind, body(kind)) }
        if kind == 0 {
            answer()
        } else {
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(delay), execute: answer)
        }
        return transfer
    }

    func shutdown() async {}
}

private final class LivelyTransfer: Transfer {
    private let receive: Mutex<(@Sendable (TransferEvent) -> Void)?>
    /// Called once, as soon as it is sure that the transfer ends.
    private let willEnd: @Sendable () -> Void

    init(_ receive: @escaping @Sendable (TransferEvent) -> Void, willEnd: @escaping @Sendable () -> Void) {
        self.receive = Mutex(receive)
        self.willEnd = willEnd
    }

    func answer(_ kind: Int, _ body: Data) {
        let fields: HTTPHeaders = ["Cache-Control": kind == 2 ? "no-store" : "max-age=100", "ETag": "\"\(kind)\""]
        switch kind {
        case 3: end(.failure(.connectionLost))
        case 4: end(.success(TransferResponse(status: 503, headers: [:], body: Data())))
        case 5: end(.success(TransferResponse(status: 404, headers: [:], body: Data())))
        case 6:
            let part = TransferResponse(
                status: 200, headers: ["Content-Length": "\(body.count + 1_000)", "ETag": "\"a\""], body: body)
            end(.failure(.connectionLost), after: .interrupted(part))
        case 7:
            let received = receive.withLock { $0 }
            received?(.progress(received: 10, expected: 1_000))
            end(.success(TransferResponse(status: 200, headers: fields, body: body)))
        default: end(.success(TransferResponse(status: 200, headers: fields, body: body)))
        }
    }

    private func end(_ result: Result<TransferResponse, DipperError>, after event: TransferEvent? = nil) {
        let receive = receive.withLock { receive in
            if receive != nil { willEnd() }
            defer { receive = nil }
            return receive
        }
        if let event { receive?(event) }
        receive?(.finished(result))
    }

    func cancel() { end(.failure(.cancelled)) }
    func setThrottled(_ isThrottled: Bool) {}
    func setQueue(_ queue: FetchQueue) {}
}
