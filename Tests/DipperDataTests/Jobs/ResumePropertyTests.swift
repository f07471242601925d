import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DipperData

@Suite("No server makes a body of pieces that do not belong together", .timeLimit(.minutes(5)))
struct ResumePropertyTests {
    private static let cases = 6_000

    @Test("whatever a server does, a call ends with the whole of one version, or with an error", arguments: 0..<4)
    func property(part: Int) async throws {
        let seed = UInt64.random(in: .min ... .max)
        let transport = FickleTransport()
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        configuration.clock = ManualClock()
        configuration.retryPolicy = .fixed(.zero, retries: 8)
        configuration.logger.logLevel = .critical
        let cache = DataCache(configuration)
        var random = SeededRandom(seed)
        var succeeded = 0
        var continued = 0
        for number in 0..<(Self.cases / 4) {
            let server = FickleServer(seed: random.next())
            let target = url("\(part)/\(number)")
            transport.serve(target, by: server)
            let request = DataRequest(target)
            let task = Bool.random(using: &random) ? cache.getData(request) : cache.slowGetData(request)
            if let data = try? await task.value {
                succeeded += 1
                if server.continuations > 0 { continued += 1 }
                #expect(server.versions.contains(data), "case \(number) of seed \(seed)")
                if let kept = cache.data(for: target) { #expect(kept == data, "case \(number) of seed \(seed)") }
            }
            if number % 100 == 99 { cache.clearMemory() }
        }
        #expect(cache.queueCounts == QueueCounts(), "seed \(seed)")
        #expect(succeeded > Self.cases / 12, "the servers are not so bad: \(succeeded), seed \(seed)")
        #expect(continued > Self.cases / 40, "bodies were continued: \(continued), seed \(seed)")
        await cache.shutdown()
    }

    @Test("the same with calls that are taken back and made again, over a folder that is opened anew")
    func propertyOnDisk() async throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededRandom(seed)
        let folder = TemporaryFolder()
        let transport = FickleTransport()
        var succeeded = 0
        for round in 0..<8 {
            var configuration = DataCache.Configuration(directory: folder.url)
            configuration.transport = transport
            configuration.clock = ManualClock()
            configuration.retryPolicy = .fixed(.zero, retries: 2)
            configuration.logger.logLevel = .critical
            let cache = DataCache(configuration)
            for number in 0..<60 {
                let server = FickleServer(seed: random.next())
                // The same addresses in all rounds, so that what one has left is found by the next.
                let target = url("\(number % 20)")
                transport.serve(target, by: server)
                for _ in 0..<3 {
                    let task = cache.getRemoteOrCached(target, Bool.random(using: &random))
                    if Int.random(in: 0..<3, using: &random) == 0 { task.cancel() }
                    if let data = try? await task.value {
                        succeeded += 1
                        #expect(
                            transport.versions(of: target).contains(data),
                            "round \(round), case \(number), seed \(seed)")
                    }
                }
                if Int.random(in: 0..<3, using: &random) == 0 { cache.removeData(for: target) }
            }
            #expect(cache.queueCounts == QueueCounts(), "seed \(seed)")
            await cache.shutdown()
        }
        // A third of 1,440 calls is taken back.
        #expect(succeeded > 240, "\(succeeded) of 1,440, seed \(seed)")
    }
}

extension DataCache {
    fileprivate func getRemoteOrCached(_ target: URL, _ isRemote: Bool) -> DataTask {
        isRemote ? getRemoteData(target) : getData(target)
    }
}

/// Pseudo-random numbers from a seed (SplitMix64).
struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }
}

/// A server that changes its resource, truncates answers and sends wrong header fields.
///
/// Two versions never have the same strong validator, and the bytes sent under the right validator are always the
/// announced ones, because no client could detect such errors.
private final class FickleServer: Sendable {
    private struct State {
        var random: SeededRandom
        var versions: [Data]
        var continuations = 0
    }

    private enum Validation: CaseIterable { case tag, weakTag, date, youngDate, none }

    private let state: Mutex<State>
    private let validation: Validation
    private let changesOften: Bool
    private let cutsOften: Bool
    private let isHonest: Bool
    private let isChunked: Bool
    private let mark: UInt64

    init(seed: UInt64) {
        var random = SeededRandom(seed)
        mark = random.next()
        validation =
            Int.random(in: 0..<3, using: &random) > 0 ? .tag : Validation.allCases.randomElement(using: &random)!
        changesOften = Int.random(in: 0..<4, using: &random) == 0
        cutsOften = Int.random(in: 0..<4, using: &random) > 0
        isHonest = Bool.random(using: &random)
        isChunked = Int.random(in: 0..<5, using: &random) == 0
        let first = Self.body(&random)
        state = Mutex(State(random: random, versions: [first]))
    }

    private static func body(_ random: inout SeededRandom) -> Data {
        Data((0..<Int.random(in: 1...120, using: &random)).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }

    var versions: [Data] { state.withLock { $0.versions } }
    var continuations: Int { state.withLock { $0.continuations } }

    func answer(_ request: TransferRequest) -> (TransferResponse?, DipperError?) {
        state.withLock { state in answer(request, &state) }
    }

    private func fields(_ version: Int) -> HTTPHeaders {
        let base = Date(timeIntervalSince1970: 1_600_000_000)
        switch validation {
        case .tag: return ["ETag": "\"\(mark)-\(version)\""]
        case .weakTag: return ["ETag": "W/\"same\""]
        case .date:
            return ["Last-Modified": (base + Double(version) * 100).httpText, "Date": (base + 1_000_000).httpText]
        // Several versions of one second.
        case .youngDate: return ["Last-Modified": base.httpText, "Date": (base + 30).httpText]
        case .none: return [:]
        }
    }

    private func answer(_ request: TransferRequest, _ state: inout State) -> (TransferResponse?, DipperError?) {
        func chance(_ one: Int) -> Bool { Int.random(in: 0..<one, using: &state.random) == 0 }
        if chance(changesOften ? 3 : 25), state.versions.count < 6 { state.versions.append(Self.body(&state.random)) }
        if chance(20) {
            return (nil, [.connectionFailed, .timedOut, .status(503)].randomElement(using: &state.random))
        }
        let version = state.versions.count - 1
        let body = state.versions[version]
        var fields = fields(version)
        var start = 0
        var end = body.count
        var status = 200
        let asked = request.headers["Range"].flatMap { Int($0.dropFirst(6).dropLast()) }
        let condition = request.headers["If-Range"]
        let isSame = condition == nil || condition == fields["ETag"] || condition == fields["Last-Modified"]
        let isLying = !isHonest && chance(3)
        if let asked, !chance(12), isSame || isLying {
            if asked >= body.count { return (TransferResponse(status: 416, body: Data()), nil) }
            status = 206
            start = asked
            if chance(6) {
                end = min(end, start + 1)
            } else if chance(4) {
                end = Int.random(in: (start + 1)...end, using: &state.random)
            }
            state.continuations += 1
        } else if !isHonest, asked == nil, chance(15) {
            // A part that the client did not ask for.
            status = 206
            start = Int.random(in: 0..<body.count, using: &state.random)
        }
        var bytes = Data(body[start..<end])
        var total = "\(body.count)"
        if status == 206 {
            if isLying {
                switch Int.random(in: 0..<8, using: &state.random) {
                case 0:
                    // Bytes from elsewhere, and says so.
                    start = Int.random(in: 0..<body.count, using: &state.random)
                    end = body.count
                    bytes = Data(body[start...])
                case 1: total = "\(body.count + Int.random(in: 1...9, using: &state.random))"
                case 2: fields = [:]
                case 3: fields["Content-Type"] = "multipart/byteranges; boundary=x"
                case 4: fields["Content-Encoding"] = "gzip"
                case 5: bytes += [1, 2, 3]
                case 6: total = "*"
                default: fields["ETag"] = "\"another\""
                }
            }
            if !isLying || !chance(10) { fields["Content-Range"] = "bytes \(start)-\(max(start, end - 1))/\(total)" }
        }
        if !isChunked { fields["Content-Length"] = "\(bytes.count)" }
        if chance(cutsOften ? 2 : 8) {
            let cut = bytes.prefix(Int.random(in: 0...bytes.count, using: &state.random))
            let error: DipperError = [.connectionLost, .truncated, .timedOut].randomElement(using: &state.random)!
            return (cut.isEmpty ? nil : TransferResponse(status: status, headers: fields, body: Data(cut)), error)
        }
        return (TransferResponse(status: status, headers: fields, body: bytes), nil)
    }
}

/// A transport that passes requests to fickle servers, on its own thread.
private final class FickleTransport: Transport {
    private struct Running: Transfer {
        let isOver = Box(false)
        let receive: @Sendable (TransferEvent) -> Void

        func end(_ events: [TransferEvent]) {
            var isFirst = false
            isOver.update {
                isFirst = !$0
                $0 = true
            }
            if isFirst { for event in events { receive(event) } }
        }

        func cancel() { end([.finished(.failure(.cancelled))]) }
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
    }

    private let servers = Mutex<[URL: [FickleServer]]>([:])
    private let queue = DispatchQueue(label: "fickle")

    func serve(_ target: URL, by server: FickleServer) {
        servers.withLock { $0[target, default: []].append(server) }
    }

    func versions(of target: URL) -> [Data] {
        servers.withLock { $0[target] ?? [] }.flatMap(\.versions)
    }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let transfer = Running(receive: receive)
        let server = servers.withLock { $0[request.url]?.last }
        queue.async {
            guard let (response, error) = server?.answer(request) else {
                return transfer.end([.finished(.failure(.connectionFailed))])
            }
            if let error, let status = error.status {
                transfer.end([.finished(.success(TransferResponse(status: status, body: Data())))])
            } else if let error {
                transfer.end((response.map { [.interrupted($0)] } ?? []) + [.finished(.failure(error))])
            } else if let response {
                transfer.end([.finished(.success(response))])
            }
        }
        return transfer
    }

    func shutdown() async {
        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
    }
}
