import Dipper
import DipperTesting
import Foundation
import Hummingbird
import NIOCore
import Synchronization

@testable import ImageServer

/// The server that pictures come from. It counts its requests, and holds those for `/held` until it is told to go on.
final class Origin: Sendable {
    struct Event: Sendable, Equatable {
        let path: String
        let isEnd: Bool
    }

    private struct State {
        var events: [Event] = []
        var isOpen = false
        var held: [CheckedContinuation<Void, Never>] = []
        var waiting: [(count: Int, CheckedContinuation<Void, Never>)] = []
    }

    let url: String
    /// Another host, which is the same server.
    var otherURL: String { url.replacing("127.0.0.1", with: "localhost") }
    private let state: Shared
    private let running: Task<Void, any Error>

    private final class Shared: Sendable {
        let value = Mutex(State())

        func add(_ event: Event) {
            value.withLock { state in
                state.events.append(event)
                let arrived = state.events.count { !$0.isEnd && $0.path.hasPrefix("/held") }
                state.waiting.removeAll { waiter in
                    guard waiter.count <= arrived else { return false }
                    waiter.1.resume()
                    return true
                }
            }
        }

        func hold() async {
            await withCheckedContinuation { continuation in
                let isOpen = value.withLock { state in
                    if !state.isOpen { state.held.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }
    }

    init() async throws {
        let state = Shared()
        self.state = state
        let router = Router()
        router.get("**") { request, _ in
            let path = request.uri.path
            state.add(Event(path: path, isEnd: false))
            defer { state.add(Event(path: path, isEnd: true)) }
            if path.hasPrefix("/held") { await state.hold() }
            return try Self.answer(to: path, request)
        }
        let (addresses, listening) = AsyncStream.makeStream(of: String.self)
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { listening.yield("http://127.0.0.1:\($0.localAddress?.port ?? 0)") })
        running = Task { try await application.run() }
        var iterator = addresses.makeAsyncIterator()
        url = await iterator.next() ?? ""
    }

    func stop() async {
        open()
        running.cancel()
        _ = await running.result
    }

    private static func answer(to path: String, _ request: Request) throws -> Response {
        let parts = path.split(separator: "/").map(String.init)
        switch parts.first {
        case "status":
            return Response(status: .init(integerLiteral: Int(parts[1]) ?? 500), headers: [.retryAfter: "7"])
        case "text": return file(Data("no picture".utf8), "text/plain")
        case "bytes": return file(Data(count: Int(parts[1]) ?? 0), "image/png")
        case "redirect": return Response(status: .found, headers: [.location: "/picture/1"])
        case "unkept": return try file(Image.sample(160, 120).png, "image/png", "no-store")
        case "shared":
            return try file(Image.sample(160, 120).png, "image/png", "max-age=60, s-maxage=600")
        // Larger than what the system keeps for a client.
        case "noise":
            let size = PixelSize(width: 2000, height: 2000)
            let pixels = (0..<4_000_000).map { _ in UInt32.random(in: .min ... .max) | 0xFF00_0000 }
            let image = pixels.withUnsafeBytes { Image(size: size, premultiplied: $0) }
            return try file(image?.png ?? Data(), "image/png")
        case "large": return try file(Image.filled(with: .black, 1100, 1000).png, "image/png")
        case "renewed":
            let tag = "\"1\""
            let control = parts.count > 1 ? "max-age=0, must-revalidate" : "max-age=0"
            let fields: HTTPFields = [.eTag: tag, .cacheControl: control]
            if request.headers[.ifNoneMatch] == tag { return Response(status: .notModified, headers: fields) }
            var response = try file(Image.sample(160, 120).png, "image/png")
            for field in fields { response.headers[field.name] = field.value }
            return response
        // Each path is another picture.
        default:
            let seed = UInt8(truncatingIfNeeded: path.utf8.reduce(7) { $0 &* 31 &+ Int($1) })
            return try file(Image.sample(800, 600, seed: seed).jpeg, "image/jpeg")
        }
    }

    private static func file(_ bytes: Data, _ type: String, _ control: String = "max-age=600") -> Response {
        Response(
            status: .ok, headers: [.contentType: type, .cacheControl: control],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    /// Lets the requests that are held go on, and all later ones.
    func open() {
        let held = state.value.withLock { state in
            state.isOpen = true
            defer { state.held = [] }
            return state.held
        }
        for continuation in held { continuation.resume() }
    }

    /// Waits until so many requests have been held.
    func waitForHeld(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.value.withLock { state in
                let arrived = state.events.count { !$0.isEnd && $0.path.hasPrefix("/held") }
                if arrived < count { state.waiting.append((count, continuation)) }
                return arrived >= count
            }
            if isThere { continuation.resume() }
        }
    }

    var events: [Event] { state.value.withLock { $0.events } }
    /// The paths of all requests, in the order of their arrival.
    var requests: [String] { events.filter { !$0.isEnd }.map(\.path) }
}
