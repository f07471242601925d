import DipperData
import Foundation
import NIOCore
import NIOHTTP1

struct ProxyHandler: Sendable {
    typealias Connection = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>
    private typealias Parts = NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
    private typealias Writer = NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>

    let gateway: Gateway
    /// The largest body of a request, in bytes.
    var maximumBodySize = 16 << 20

    func serve(_ connection: Connection) async throws {
        try await connection.executeThenClose { inbound, outbound in
            var parts = inbound.makeAsyncIterator()
            while case .head(let head) = try await parts.next() {
                let answer: Answer
                if let body = try await body(of: head, &parts, outbound) {
                    answer = try await self.answer(to: Gateway.Request(head, body: body), outbound, head.version)
                } else {
                    answer = Answer(Refusal(status: 413, text: "the body is too large"), closes: true)
                }
                // NIO reads no further request after one to change the protocol.
                let staysOpen = head.isKeepAlive && !answer.closes && !head.headers.contains(name: "Upgrade")
                try await Self.write(answer, to: outbound, head.version, staysOpen: staysOpen)
                if !staysOpen { return }
            }
        }
    }

    /// Returns the final answer, after those that come before it have been written.
    private func answer(
        to request: Gateway.Request, _ outbound: Writer, _ version: HTTPVersion
    ) async throws -> Answer {
        let (interims, continuation) = AsyncStream.makeStream(
            of: InterimResponse.self, bufferingPolicy: .bufferingNewest(Self.mostInterims))
        // A client of HTTP/1.0 does not know them (RFC 9110, section 15.2).
        let isKnown = (version.major, version.minor) >= (1, 1)
        async let answer = answer(to: request, { if isKnown { continuation.yield($0) } }) { continuation.finish() }
        for await interim in interims {
            var head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: interim.status))
            for field in gateway.fields(of: interim).fields { head.headers.add(name: field.name, value: field.value) }
            try await outbound.write(.head(head))
        }
        return await answer
    }

    private func answer(
        to request: Gateway.Request, _ passesOn: @escaping @Sendable (InterimResponse) -> Void,
        done: @Sendable () -> Void
    ) async -> Answer {
        var request = request
        request.passesOn = passesOn
        defer { done() }
        return await gateway.answer(to: request)
    }

    private static let mostInterims = 16

    /// Answers the first request of a connection above the limit with 503 and closes the connection.
    static func refuse(_ connection: Connection) async throws {
        try await connection.executeThenClose { inbound, outbound in
            var parts = inbound.makeAsyncIterator()
            guard case .head(let head) = try await parts.next() else { return }
            let answer = Answer(Refusal(status: 503, text: "too many connections"))
            try await write(answer, to: outbound, head.version, staysOpen: false)
        }
    }

    // MARK: Reading

    private func body(
        of head: HTTPRequestHead, _ parts: inout Parts, _ outbound: Writer
    ) async throws -> ByteBuffer? {
        // A body whose announced length is too large is refused before the client sends it.
        let announced = head.headers.first(name: "Content-Length").flatMap { Int($0) } ?? 0
        guard announced <= maximumBodySize else { return nil }
        if head.headers["Expect"].contains(where: { $0.lowercased() == "100-continue" }) {
            try await outbound.write(.head(HTTPResponseHead(version: .http1_1, status: .continue)))
        }
        var body = ByteBuffer()
        while let part = try await parts.next() {
            switch part {
            case .head, .end: return body
            case .body(var piece):
                guard body.readableBytes + piece.readableBytes <= maximumBodySize else { return nil }
                body.writeBuffer(&piece)
            }
        }
        // The connection broke, so there is no client to answer.
        throw ChannelError.eof
    }

    // MARK: Writing

    private static let pieceSize = 64 << 10

    private static func write(
        _ answer: Answer, to outbound: Writer, _ version: HTTPVersion, staysOpen: Bool
    ) async throws {
        var head = HTTPResponseHead(version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status))
        for field in answer.fields.fields { head.headers.add(name: field.name, value: field.value) }
        if answer.mayHaveBody { head.headers.replaceOrAdd(name: "Content-Length", value: "\(answer.body.count)") }
        if !staysOpen {
            head.headers.add(name: "Connection", value: "close")
        } else if version == .http1_0 {
            head.headers.add(name: "Connection", value: "keep-alive")
        }
        try await outbound.write(.head(head))
        if answer.mayHaveBody && !answer.isHeadOnly {
            var rest = answer.body[...]
            while !rest.isEmpty {
                let piece = rest.prefix(pieceSize)
                rest = rest.dropFirst(piece.count)
                try await outbound.write(.body(.byteBuffer(ByteBuffer(bytes: piece))))
            }
        }
        try await outbound.write(.end(nil))
    }
}

extension Gateway.Request {
    fileprivate init(_ head: HTTPRequestHead, body: ByteBuffer) {
        let hasBody = head.headers.contains(name: "Content-Length") || head.headers.contains(name: "Transfer-Encoding")
        self.init(
            // NIO's name of this method lacks the hyphen.
            method: head.method == .MSEARCH ? "M-SEARCH" : head.method.rawValue, target: head.uri,
            fields: Fields(head.headers.map { Fields.Field($0.name, $0.value) }),
            body: hasBody ? Data(body.readableBytesView) : nil)
    }
}
