import Dispatch
import FaultServer
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DipperData

/// A name server that the test controls.
private final class NameServer: Sendable {
    private let answers: [String: [String]]
    /// Names that the server does not answer before the test ends.
    private let hanging: Set<String>
    private let end = DispatchSemaphore(value: 0)
    let asked = Box<[String]>([])

    init(_ answers: [String: [String]], hanging: Set<String> = []) {
        self.answers = answers
        self.hanging = hanging
    }

    func lookUp(_ name: String) -> HostLookups.Answer {
        asked.update { $0.append(name) }
        if hanging.contains(name) {
            end.wait()
            end.signal()
        }
        return answers[name].map { .success($0.map { HostAddress(text: $0) }) } ?? .failure(.hostNotFound)
    }

    func stop() { end.signal() }

    func resolver(mostThreads: Int = 32, timeToLive: Duration = .seconds(60)) -> HostResolver {
        HostResolver(mostThreads: mostThreads, timeToLive: timeToLive) { self.lookUp($0) }
    }
}

/// A transfer and how it ended.
private final class Run: Sendable {
    let transfer: any Transfer
    private let ends: AsyncStream<Result<TransferResponse, DipperError>>
    let endings = Box(0)

    init(_ transport: CurlTransport, _ url: String) throws {
        let (ends, continuation) = AsyncStream.makeStream(of: Result<TransferResponse, DipperError>.self)
        self.ends = ends
        let endings = endings
        transfer = transport.start(TransferRequest(url: try #require(URL(string: url)))) { event in
            guard case .finished(let result) = event else { return }
            endings.update { $0 += 1 }
            continuation.yield(result)
        }
    }

    var result: Result<TransferResponse, DipperError> {
        get async {
            for await result in ends { return result }
            return .failure(.transport)
        }
    }

    var error: DipperError? {
        get async { if case .failure(let error) = await result { error } else { nil } }
    }
}

@Suite("Name servers that do not answer", .timeLimit(.minutes(5)))
struct HangingLookupTests {
    @Test("a look-up that hangs holds up nobody else, is cancelled at once, and ends once")
    func cancelled() async throws {
        let server = try await FaultServer.start()
        let names = NameServer(["other.test": ["127.0.0.1"]], hanging: ["hanging.test"])
        let transport = CurlTransport(.init(), resolver: names.resolver())
        let hanging = try Run(transport, "http://hanging.test/")
        #expect(await settle { names.asked.value == ["hanging.test"] })
        let path = "/bytes/1000/a"
        let literal = try Run(transport, server.url(path).absoluteString)
        #expect(try await literal.result.get().body == FaultServer.body(of: path, size: 1_000))
        hanging.transfer.cancel()
        #expect(await hanging.error == .cancelled)
        let named = try Run(transport, "http://other.test:\(server.port)\(path)")
        #expect(try await named.result.get().body == FaultServer.body(of: path, size: 1_000))
        await transport.shutdown()
        #expect(hanging.endings.value == 1 && named.endings.value == 1)
        names.stop()
        await server.stop()
    }

    @Test("a look-up that hangs ends with the time for connections")
    func timedOut() async throws {
        let names = NameServer([:], hanging: ["hanging.test"])
        var configuration = CurlConfiguration()
        configuration.connectTimeout = .milliseconds(200)
        let transport = CurlTransport(configuration, resolver: names.resolver())
        let hanging = try Run(transport, "http://hanging.test/")
        #expect(await hanging.error == .timedOut)
        await transport.shutdown()
        #expect(hanging.endings.value == 1)
        names.stop()
    }

    @Test("the end of the transport does not wait for a look-up, and ends its transfer once")
    func shutDown() async throws {
        let names = NameServer([:], hanging: ["hanging.test"])
        let transport = CurlTransport(.init(), resolver: names.resolver())
        let hanging = try Run(transport, "http://hanging.test/")
        #expect(await settle { names.asked.value == ["hanging.test"] })
        await transport.shutdown()
        #expect(await hanging.error == .cancelled)
        names.stop()
        let late = try Run(transport, "http://hanging.test/")
        #expect(await late.error == .shutDown)
        #expect(hanging.endings.value == 1)
    }

    @Test("a prefetch that is held back during its look-up does not begin before it may")
    func heldBack() async throws {
        let server = try await FaultServer.start()
        let addresses = ["127.0.0.1"]
        let names = NameServer(["slow.test": addresses, "next.test": addresses], hanging: ["slow.test"])
        let transport = CurlTransport(.init(), resolver: names.resolver(mostThreads: 1))
        let run = try Run(transport, "http://slow.test:\(server.port)/bytes/10/a")
        #expect(await settle { names.asked.value == ["slow.test"] })
        run.transfer.setThrottled(true)
        names.stop()
        // The one thread looks this name up after it has told the first name's address; in the pool it comes second, too.
        let other = try Run(transport, "http://next.test:\(server.port)/bytes/10/b")
        _ = try await other.result.get()
        #expect(names.asked.value == ["slow.test", "next.test"])
        #expect(server.requests.map(\.target) == ["/bytes/10/b"], "it was sent while it was held back")
        run.transfer.setThrottled(false)
        #expect(try await run.result.get().status == 200)
        #expect(server.requests.map(\.target) == ["/bytes/10/b", "/bytes/10/a"])
        await transport.shutdown()
        await server.stop()
    }

    @Test("all addresses of a name are tried, in their order")
    func addresses() async throws {
        let server = try await FaultServer.start()
        let names = NameServer(["both.test": ["::1", "127.0.0.1"], "none.test": []])
        let transport = CurlTransport(.init(), resolver: names.resolver())
        let both = try Run(transport, "http://both.test:\(server.port)/bytes/10/a")
        #expect(try await both.result.get().status == 200)
        let unknown = try Run(transport, "http://unknown.test:\(server.port)/bytes/10/a")
        #expect(await unknown.error == .hostNotFound)
        await transport.shutdown()
        await server.stop()
    }

    @Test("a kept connection and an address that is known need no look-up; a change of the network does")
    func known() async throws {
        let server = try await FaultServer.start()
        let names = NameServer(["host.test": ["127.0.0.1"]])
        let transport = CurlTransport(.init(), resolver: names.resolver(timeToLive: .zero))
        for _ in 0..<5 {
            let run = try Run(transport, "http://host.test:\(server.port)/bytes/10/a")
            #expect(try await run.result.get().status == 200)
        }
        #expect(names.asked.value == ["host.test"])
        #expect(Set(server.requests.map(\.connection)).count == 1)
        await transport.shutdown()
        await server.stop()
    }

    @Test("the time for the look-up is part of what is measured")
    func metrics() async throws {
        let server = try await FaultServer.start()
        let resolver = HostResolver { _ in
            usleep(50_000)
            return .success([HostAddress(text: "127.0.0.1")])
        }
        let transport = CurlTransport(.init(), resolver: resolver)
        let run = try Run(transport, "http://host.test:\(server.port)/bytes/10/a")
        let metrics = try await run.result.get().metrics
        #expect(metrics.nameLookup >= .milliseconds(50))
        #expect(metrics.connect >= metrics.nameLookup && metrics.total >= metrics.firstByte)
        await transport.shutdown()
        await server.stop()
    }
}
