import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

extension RequestHooksTests {
    // MARK: Cancelling while a hook runs

    enum Place: String, CaseIterable { case modifier, provider, challenge, handler }
    enum Way: String, CaseIterable { case cancel, cancelKey, shutdown, timeout }

    func request(_ place: Place, _ gate: Gate) -> DataRequest {
        var request = DataRequest(a)
        switch place {
        case .modifier:
            request.modifier = RequestModifier { request in
                await gate.pass()
                return request
            }
        case .provider:
            request.credentials = .provider { _ in
                await gate.pass()
                return "x"
            }
        case .challenge:
            request.credentials = .provider { challenge in
                if challenge.demand != nil { await gate.pass() }
                return challenge.demand == nil ? "x" : "y"
            }
        case .handler:
            request.redirectHandler = RedirectHandler { _, request in
                await gate.pass()
                return request
            }
        }
        return request
    }

    /// Returns when calls that began later have gone through hooks of their own and have been answered: by then what a
    /// hook that was let go before has brought is there.
    func laterCallsEnd() async throws {
        let other = TestCache()
        let modifier = RequestModifier { request in
            await Task.yield()
            return request
        }
        for number in 0..<20 {
            other.transport.script(url("\(number)"), [.text("later")])
            _ = try await other.cache.getData(DataRequest(url("\(number)")).with(\.modifier, modifier)).value
        }
        await other.cache.shutdown()
    }

    @Test(
        "what ends a call while a hook is at work ends it once, and nothing is sent", arguments: Place.allCases,
        Way.allCases)
    func cancelDuringHook(place: Place, way: Way) async throws {
        let test = TestCache()
        let gate = Gate()
        test.transport.script(
            a, [place == .handler ? .status(302, ["Location": "/b"]) : place == .challenge ? .status(401) : .text("1")])
        test.transport.script(b, [.text("1")])
        var request = request(place, gate)
        if way == .timeout { request.timeout = .seconds(5) }
        let ends = Box<[DipperError?]>([])
        let task = test.cache.getData(request).onEnd { result in
            if case .failure(let error) = result {
                ends.update { $0.append(error) }
            } else {
                ends.update { $0.append(nil) }
            }
        }
        await gate.waitForArrival()
        let sent = test.transport.transfers.count
        switch way {
        case .cancel: task.cancel()
        case .cancelKey: test.cache.cancel(request)
        case .shutdown: await test.cache.shutdown()
        case .timeout:
            try await test.clock.waitForSleepers(1)
            test.clock.advance(by: .seconds(5))
        }
        _ = await task.heard
        gate.open()
        if way != .shutdown {
            // What is asked next is sent after anything that the hook's end might have brought.
            test.transport.script(url("last"), [.text("last")])
            try await laterCallsEnd()
            _ = try await test.cache.getRemoteData(url("last")).value
            #expect(test.transport.transfers.count == sent + 1)
        } else {
            try await laterCallsEnd()
            #expect(test.transport.transfers.count == sent)
        }
        #expect(ends.value == [way == .timeout ? .timedOut : .cancelled])
        #expect(test.cache.queueCounts == QueueCounts())
        await test.cache.shutdown()
    }

    @Test("a new call for the key while the hook of a cancelled one is still at work is served by itself")
    func newCallDuringHook() async throws {
        let test = TestCache()
        let gate = Gate()
        test.transport.script(a, [.text("1")])
        let first = test.cache.getData(request(.modifier, gate))
        await gate.waitForArrival()
        first.cancel()
        #expect(try await test.ask(a) == Told("1", .network))
        gate.open()
        try await laterCallsEnd()
        #expect(test.requests(a).count == 1)
        #expect(await first.error == .cancelled)
        await test.cache.shutdown()
    }

    @Test("demotion and promotion while a hook is at work count for what is sent then")
    func queueChangeDuringHook() async throws {
        let test = TestCache()
        let gate = Gate()
        let task = test.cache.getData(request(.modifier, gate))
        await gate.waitForArrival()
        task.moveToSlowQueue()
        gate.open()
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.queue == .slow && transfer.request.headers["Priority"] == "u=6")
        transfer.finish(with: Data())
        _ = try await task.value
        await test.cache.shutdown()
    }
}
