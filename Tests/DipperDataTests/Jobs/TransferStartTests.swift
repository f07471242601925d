import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("A transfer that begins behind a redirect, while the queues change", .timeLimit(.minutes(5)))
struct TransferStartTests {
    @Test("the last word a transfer hears is the one that holds, also if it was being started meanwhile")
    func lastWord() async throws {
        let transport = NestingTransport()
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        configuration.logger.logLevel = .critical
        let cache = DataCache(configuration)
        let urgent = Box<DataTask?>(nil)
        transport.whileStarting {
            let task = cache.getData(url("urgent"))
            urgent.update { $0 = task }
        }
        let slow = cache.slowGetData(url("first"))
        await transport.waitForSecond()
        _ = try await urgent.value?.value
        #expect(transport.isThrottled == false)
        transport.finishSecond()
        _ = try await slow.value
        await cache.shutdown()
    }
}

/// A transport that redirects the first request. While the second request starts, urgent work begins; while the cache
/// throttles the second request for it, the urgent work ends.
private final class NestingTransport: Transport {
    private struct State {
        var whileStarting: @Sendable () -> Void = {}
        var urgent: (@Sendable (TransferEvent) -> Void)?
        var second: (@Sendable (TransferEvent) -> Void)?
        var isThrottled: Bool?
        var waiter: CheckedContinuation<Void, Never>?
        var hasBegun = false
    }

    private struct Running: Transfer {
        let change: @Sendable (Bool) -> Void
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) { change(isThrottled) }
        func setQueue(_ queue: FetchQueue) {}
    }

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "nesting")

    var isThrottled: Bool? { state.withLock { $0.isThrottled } }

    func whileStarting(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.whileStarting = body } }

    func waitForSecond() async {
        await withCheckedContinuation { continuation in
            let hasBegun = state.withLock { state in
                if !state.hasBegun { state.waiter = continuation }
                return state.hasBegun
            }
            if hasBegun { continuation.resume() }
        }
    }

    func finishSecond() { end(state.withLock { $0.second }) }

    private func end(_ receive: (@Sendable (TransferEvent) -> Void)?) {
        receive?(.finished(.success(TransferResponse(body: Data()))))
    }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        switch request.url.lastPathComponent {
        case "first":
            queue.async {
                receive(
                    .finished(.success(TransferResponse(status: 302, headers: ["Location": "/second"], body: Data()))))
                // The second has been started, and told what there was to tell, when this returns.
                let waiter = self.state.withLock { state in
                    state.hasBegun = true
                    return exchange(&state.waiter, with: nil)
                }
                waiter?.resume()
            }
            return Running { _ in }
        case "second":
            let body = state.withLock { state in
                state.second = receive
                return state.whileStarting
            }
            body()
            return Running { isThrottled in
                if isThrottled { self.end(self.state.withLock { exchange(&$0.urgent, with: nil) }) }
                self.state.withLock { $0.isThrottled = isThrottled }
            }
        default:
            state.withLock { $0.urgent = receive }
            return Running { _ in }
        }
    }

    func shutdown() async {}
}
