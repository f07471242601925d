import FaultServer
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Transfers that end at odd moments", .timeLimit(.minutes(5)))
struct TransferFaultTests {
    @Test("a body that is not wanted ends a transfer that is let go on")
    func refusedAfterPause() async throws {
        let server = try await FaultServer.start()
        var configuration = CurlConfiguration()
        configuration.maximumBodySize = 1_000
        let transport = CurlTransport(configuration)
        let (ends, continuation) = AsyncStream.makeStream(of: DipperError?.self)
        let request = TransferRequest(url: server.url("/bytes/10000/a?chunked=1&delay=50"), queue: .slow)
        let transfer = transport.start(request) { event in
            switch event {
            case .finished(.failure(let error)): continuation.yield(error)
            case .finished(.success): continuation.yield(nil)
            default: break
            }
        }
        transfer.setThrottled(true)
        await server.waitForEnds(1)
        // Its first bytes have been held back by the time another transfer of its pool is over.
        await withCheckedContinuation { done in
            _ = transport.start(TransferRequest(url: server.url("/bytes/10/b?delay=50"), queue: .slow)) { event in
                if case .finished = event { done.resume() }
            }
        }
        transfer.setThrottled(false)
        for await error in ends {
            #expect(error == .tooLarge)
            break
        }
        await transport.shutdown()
        await server.stop()
    }

    @Test("a peer that hangs up amid the TLS handshake is a failure that may pass")
    func handshake() async throws {
        for greeting in [[RawStep.close], [.reset]] {
            let hostile = try await HostileServer(greeting: greeting) { _ in [] }
            let outcome = await hostile.outcome(DataRequest(string: hostile.server.url("/", scheme: "https")))
            guard case .error(let error) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
            // A reset may come before the connection counts as made.
            #expect(error == .connectionLost || error == .connectionFailed, "\(outcome)")
            #expect(error.mayPass)
            if case .close? = greeting.first { #expect(error.detail == "the TLS handshake was broken off") }
            await hostile.stop()
        }
    }

    @Test(
        "a handshake that was broken off is told from one that was refused",
        arguments: [
            ("OpenSSL/3.0.19: error:0A000126:SSL routines::unexpected eof while reading", true),
            ("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to host.test:443 ", true),
            ("OpenSSL SSL_connect: Connection reset by peer in connection to host.test:443 ", true),
            ("GnuTLS, handshake failed: The TLS connection was non-properly terminated.", true),
            ("error:0A000410:SSL routines::sslv3 alert handshake failure", false),
            ("error:0A00042E:SSL routines::tlsv1 alert protocol version", false), ("", false),
        ])
    func handshakeTexts(text: String, isBroken: Bool) {
        #expect(CurlErrors.isBrokenHandshake(text) == isBroken)
    }

    @Test("where there is no way no attempt is made, also after a redirect")
    func unreachable() async throws {
        let test = TestCache()
        let there = URL(string: "http://there.test/x")!
        test.network.isUp = false
        let task = test.cache.getData(url("a"))
        #expect(await settle { task.state == .parked })
        #expect(test.transport.transfers.isEmpty && task.attempts == 0)
        test.network.setReachable(false, host: "there.test")
        test.network.isUp = true
        try await test.clock.waitForSleepers(1)
        test.clock.advanceToNextSleeper()
        try await test.transport.nextTransfer().finish(
            with: Data(), status: 302, headers: ["Location": there.absoluteString])
        #expect(await settle { task.state == .parked })
        #expect(test.transport.transfers.map(\.request.url) == [url("a")])
        test.network.setReachable(true, host: "there.test")
        try await test.clock.waitForSleepers(1)
        test.clock.advanceToNextSleeper()
        try await test.transport.nextTransfer().finish(
            with: Data(), status: 302, headers: ["Location": there.absoluteString])
        try await test.transport.nextTransfer().finish(with: Data("x".utf8))
        #expect(try await task.value == Data("x".utf8))
        await test.cache.shutdown()
    }
}
