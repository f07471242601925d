import FaultServer
import TestSupport
import Testing

@Suite("A body that will not be used is not waited for", .timeLimit(.minutes(1)))
struct EarlyEndTests {
    private func serve(
        _ change: (inout DataCache.Configuration) -> Void = { _ in },
        _ script: @escaping @Sendable (RawServer.Request) -> [RawStep]
    ) async throws -> HostileServer {
        // Only the end of the header section can end these transfers within the time limit of the suite.
        try await HostileServer(
            {
                $0.network.lowSpeedTime = .seconds(600)
                change(&$0)
            }, script: script)
    }

    @Test(
        "a redirect is followed once its header section is complete",
        arguments: ["", "Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"],
        [false, true])
    func redirect(framing: String, wantsErrorBody: Bool) async throws {
        let hostile = try await serve { request in
            request.path == "/"
                ? [.send("HTTP/1.1 302 Found\r\nLocation: /next\r\n\(framing)\r\n"), .wait]
                : [.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"), .close]
        }
        var request = DataRequest(string: hostile.server.url("/"))
        if wantsErrorBody { request.validation = .anyStatus }
        #expect(await hostile.outcome(request) == .body("here"))
        await hostile.stop()
    }

    @Test("an error ends the call once its header section is complete", arguments: [400, 404, 410, 500, 503])
    func error(status: Int) async throws {
        let hostile = try await serve({ $0.fastQueue.maxConcurrent = 1 }) { request in
            request.path == "/next"
                ? [.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"), .close]
                : [.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 \(status) No\r\n\r\n"), .wait]
        }
        for path in ["/1", "/2", "/3"] { #expect(await hostile.outcome(path) == .error(.status(status))) }
        #expect(await hostile.outcome("/next") == .body("here"), "and its place is free")
        // The connections are not kept for a body that does not come.
        await hostile.server.waitUntilLeft(3)
        await hostile.stop()
    }

    @Test("a challenge is answered at once")
    func refusals() async throws {
        let hostile = try await serve { request in
            request.header("Authorization") == "new"
                ? [.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere"), .close]
                : [.send("HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\n\r\n"), .wait]
        }
        let credentials = Credentials.provider { $0.demand == nil ? "old" : "new" }
        let request = DataRequest(string: hostile.server.url("/")).with(\.credentials, credentials)
        #expect(await hostile.outcome(request) == .body("here"))
        await hostile.stop()
    }

    @Test("a validation that wants the body of an error gets it")
    func wanted() async throws {
        let hostile = try await serve { _ in
            [.send("HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n"), .send("not found"), .close]
        }
        let request = DataRequest(string: hostile.server.url("/")).with(\.validation, .anyStatus)
        #expect(await hostile.outcome(request) == .body("not found"))
        await hostile.stop()
    }
}
