import Dipper
import Foundation
import Hummingbird
import Logging
import Metrics
import NIOCore

/// The paths of the server.
///
///     GET  /SIGNATURE/fit:400x300/format:auto/URL
///     POST /prefetch      a JSON list of such paths, signed in the same way
///     GET  /health
///     GET  /metrics       in the text format of Prometheus
struct Routes: HTTPResponder {
    let service: PictureService
    let signer: Signer
    let limits: PictureQuery.Limits
    let logger: Logger
    private let known = KnownPaths()

    init(service: PictureService, signer: Signer, limits: PictureQuery.Limits, logger: Logger) {
        (self.service, self.signer, self.limits, self.logger) = (service, signer, limits, logger)
    }

    /// The most paths in one request to prefetch, and the most bytes.
    private static let mostPaths = 1_000
    private static let longestList = 1 << 20
    /// In bytes; a socket takes as much at once.
    private static let partSize = 64 << 10

    /// Knows on which thread answers are sent.
    struct Context: RequestContext {
        var coreContext: CoreRequestContextStorage
        let eventLoop: any EventLoop

        init(source: ApplicationRequestContextSource) {
            coreContext = CoreRequestContextStorage(source: source)
            eventLoop = source.channel.eventLoop
        }
    }

    func respond(to request: Request, context: Context) async -> Response {
        if request.method != .head { return await answer(request, request.method, context) }
        return await answer(request, .get, context).createHeadResponse()
    }

    private func answer(_ request: Request, _ method: HTTPRequest.Method, _ context: Context) async -> Response {
        switch (method, request.uri.path) {
        case (.get, "/health"): Self.text(.ok, "ok")
        case (.get, "/metrics"): Self.text(.ok, PrometheusMetrics.shared.text(with: service.gauges))
        case (.get, _): await picture(request, on: context.eventLoop)
        case (.post, "/prefetch"): await prefetch(request)
        default: Self.response(Refusal(.notFound, "there is nothing here"))
        }
    }

    // MARK: Pictures

    private func picture(_ request: Request, on eventLoop: any EventLoop) async -> Response {
        let begin = ContinuousClock.now
        let path = request.uri.string.drop { $0 == "/" }
        // What makes no sense may have secrets anywhere. The signature opens the path to whoever reads it.
        var source = "none"
        var asked: PictureQuery?
        var response: Response
        do throws(Refusal) {
            let allowed = try known.path(path) { path throws(Refusal) in try self.query(signed: path) }
            let query = allowed.query
            asked = query
            let format = query.format(for: request.headers[.accept], limits)
            let picture = try await service.picture(allowed, as: format)
            source = picture.source.rawValue
            response = answer(picture, to: request, on: eventLoop)
            // Caches in between keep one answer for each `Accept`.
            if query.format == nil { response.headers[.vary] = "Accept" }
        } catch {
            response = Self.response(error)
        }
        let time = ContinuousClock.now - begin
        Counter(label: "image_server_answers", dimensions: [("status", "\(response.status.code)"), ("source", source)])
            .increment()
        Metrics.Timer(label: "image_server_duration", dimensions: [("source", source)]).record(duration: time)
        logger.info(
            "answer",
            metadata: [
                "status": "\(response.status.code)", "bytes": "\(response.body.contentLength ?? 0)",
                "from": "\(source)", "ms": "\((time / .milliseconds(1) * 10).rounded() / 10)",
                "picture": "\(asked?.logText ?? "\(path.utf8.count) bytes")",
            ])
        return response
    }

    /// - Parameter path: signature, options and URL.
    private func query(signed path: Substring) throws(Refusal) -> PictureQuery {
        guard let slash = path.firstIndex(of: "/") else { throw Refusal(.notFound, "there is nothing here") }
        let rest = path[path.index(after: slash)...]
        guard signer.accepts(path[..<slash], of: rest) else { throw Refusal(.forbidden, "the signature is wrong") }
        return try PictureQuery(rest, limits)
    }

    private func answer(
        _ picture: PictureService.Picture, to request: Request, on eventLoop: any EventLoop
    ) -> Response {
        let tag = picture.file.entityTag
        let fields: HTTPFields = [
            .contentType: picture.format.mimeType, .eTag: tag, .xContentTypeOptions: "nosniff",
            .cacheControl: Self.cacheControl(picture.freshUntil, clients: picture.clientsFreshUntil),
            .contentLength: "\(picture.file.count)",
        ]
        let known = request.headers[.ifNoneMatch]?.split(separator: ",").map { $0.filter { $0 != " " } } ?? []
        // A weak tag of a cache in between names the same picture.
        if known.contains(where: { $0 == "*" || $0 == tag || $0 == "W/" + tag }) {
            return Response(status: .notModified, headers: fields)
        }
        return Response(status: .ok, headers: fields, body: Self.body(picture.file, on: eventLoop))
    }

    /// A large one in parts, so that the end is not written before a slow client has taken what comes before it.
    private static func body(_ file: Data, on eventLoop: any EventLoop) -> ResponseBody {
        if file.count <= partSize { return ResponseBody(byteBuffer: ByteBuffer(bytes: file)) }
        return ResponseBody(contentLength: file.count) { writer in
            var rest = file[...]
            while !rest.isEmpty {
                try await writer.write(ByteBuffer(bytes: rest.prefix(partSize)))
                rest = rest.dropFirst(partSize)
                // The writer learns only there that the socket has not taken all.
                try await eventLoop.submit {}.get()
            }
            try await writer.finish(nil)
        }
    }

    /// The picture is fresh for as long as its source, at most for a year.
    /// - Parameter clients: the end for clients, if the source has another one for them than for servers in between.
    static func cacheControl(_ freshUntil: Date?, clients: Date? = nil, now: Date = Date()) -> String {
        guard let freshUntil else { return "no-store" }
        let seconds = { (end: Date) in Int(min(max(end.timeIntervalSince(now).rounded(.down), 0), 31_536_000)) }
        guard let clients else { return "public, max-age=\(seconds(freshUntil))" }
        return "public, max-age=\(seconds(clients)), s-maxage=\(seconds(freshUntil))"
    }

    // MARK: Prefetching

    private func prefetch(_ request: Request) async -> Response {
        do throws(Refusal) {
            let body: ByteBuffer
            do { body = try await request.body.collect(upTo: Self.longestList) } catch {
                throw Refusal(.contentTooLarge, "the list is too long")
            }
            guard let paths = try? JSONDecoder().decode([String].self, from: Data(body.readableBytesView)) else {
                throw Refusal(.badRequest, "the body is no JSON list of paths")
            }
            guard paths.count <= Self.mostPaths else { throw Refusal(.contentTooLarge, "the list is too long") }
            var pictures: [(query: PictureQuery, format: ImageFormat)] = []
            for path in paths {
                let query = try query(signed: path.drop { $0 == "/" })
                pictures.append((query, query.format(for: request.headers[.accept], limits)))
            }
            try service.prefetch(pictures)
            logger.info("prefetch", metadata: ["pictures": "\(paths.count)"])
            return Self.text(.accepted, "\(paths.count) pictures")
        } catch {
            return Self.response(error)
        }
    }

    // MARK: Text

    private static func response(_ refusal: Refusal) -> Response {
        var response = text(refusal.status, refusal.text)
        response.headers[.retryAfter] = refusal.retryAfter.map { "\($0)" }
        return response
    }

    private static func text(_ status: HTTPResponse.Status, _ text: String) -> Response {
        let fields: HTTPFields = [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"]
        return Response(
            status: status, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(string: text + "\n")))
    }
}
