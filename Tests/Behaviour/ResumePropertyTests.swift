import DipperData
import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@Suite("No server makes a body of pieces that do not belong together", .timeLimit(.minutes(2)))
struct ResumePropertyTests {
    @Test("whatever a server does, a call ends with the whole of one version, or with an error", arguments: 1...4)
    func property(seed: Int) async throws {
        let transport = FickleTransport()
        let cache = cache(transport, retries: 8)
        var random = SplitMix(UInt64(seed))
        var succeeded = 0
        var continued = 0
        let count = workload(200)
        for number in 0..<count {
            let server = FickleServer(seed: random.next())
            let target = url("\(number)")
            transport.serve(target, by: server)
            let task = random.chance(2) ? cache.getData(target) : cache.slowGetData(target)
            if let data = try? await task.value {
                succeeded += 1
                if server.continuations > 0 { continued += 1 }
                #expect(server.versions.contains(data), "case \(number)")
                if let kept = cache.data(for: target) { #expect(kept == data, "case \(number)") }
            }
            if number % 100 == 99 { cache.clearMemory() }
        }
        #expect(cache.queueCounts == QueueCounts())
        #expect(succeeded > count / 3, "the servers are not so bad: \(succeeded) of \(count)")
        #expect(continued > count / 10, "bodies were continued: \(continued) of \(count)")
        await cache.shutdown()
    }

    @Test("the same with calls that are taken back and made again, over a folder that is opened anew")
    func propertyOnDisk() async throws {
        var random = SplitMix(5)
        let folder = TemporaryFolder()
        let transport = FickleTransport()
        var (calls, succeeded) = (0, 0)
        for round in 0..<4 {
            let cache = cache(transport, folder, retries: 2)
            for number in 0..<30 {
                // The same addresses in all rounds, so that what one has left is found by the next.
                let target = url("\(number % 15)")
                transport.serve(target, by: FickleServer(seed: random.next()))
                for _ in 0..<3 {
                    let task = random.chance(2) ? cache.getRemoteData(target) : cache.getData(target)
                    calls += 1
                    if random.chance(3) { task.cancel() }
                    if let data = try? await task.value {
                        succeeded += 1
                        #expect(transport.versions(of: target).contains(data), "round \(round), case \(number)")
                    }
                }
                if random.chance(3) { cache.removeData(for: target) }
            }
            #expect(cache.queueCounts == QueueCounts())
            await cache.shutdown()
        }
        // A third of the calls is taken back.
        #expect(succeeded > calls / 6, "\(succeeded) of \(calls)")
    }

    private func cache(_ transport: FickleTransport, _ folder: TemporaryFolder? = nil, retries: Int) -> DataCache {
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.transport = transport
        configuration.networkMonitor = ManualNetwork()
        configuration.clock = ManualClock()
        configuration.retryPolicy = .fixed(.zero, retries: retries)
        configuration.logger.logLevel = .critical
        return DataCache(configuration)
    }
}

/// A server that changes its resource, truncates answers and sends wrong header fields.
///
/// Two versions never have the same strong validator, and the bytes sent under the right validator are always the
/// announced ones, because no client could detect such errors.
private final class FickleServer: Sendable {
    private struct State {
        var random: SplitMix
        var versions: [Data]
        var continuations = 0
    }

    private enum Validation: CaseIterable { case tag, weakTag, date, youngDate, none }

    private let state: Mutex<State>
    private let validation: Validation
    private let changesOften, cutsOften, isHonest, isChunked: Bool
    private let mark: UInt64

    init(seed: UInt64) {
        var random = SplitMix(seed)
        mark = random.next()
        validation = random.chance(3) ? Validation.allCases.randomElement(using: &random)! : .tag
        changesOften = random.chance(4)
        cutsOften = !random.chance(4)
        isHonest = random.chance(2)
        isChunked = random.chance(5)
        let first = Self.body(&random)
        state = Mutex(State(random: random, versions: [first]))
    }

    private static func body(_ random: inout SplitMix) -> Data {
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
        if state.random.chance(changesOften ? 3 : 25), state.versions.count < 6 {
            state.versions.append(Self.body(&state.random))
        }
        if state.random.chance(20) {
            return (nil, [.connectionFailed, .timedOut, .status(503)].randomElement(using: &state.random))
        }
        let version = state.versions.count - 1
        let body = state.versions[version]
        var fields = fields(version)
        var (status, start, end) = (200, 0, body.count)
        let asked = request.headers["Range"].flatMap { Int($0.dropFirst(6).dropLast()) }
        let condition = request.headers["If-Range"]
        let isSame = condition == nil || condition == fields["ETag"] || condition == fields["Last-Modified"]
        let isLying = !isHonest && state.random.chance(3)
        if let asked, !state.random.chance(12), isSame || isLying {
            if asked >= body.count { return (TransferResponse(status: 416, body: Data()), nil) }
            (status, start) = (206, asked)
            if state.random.chance(6) {
                end = min(end, start + 1)
            } else if state.random.chance(4) {
                end = Int.random(in: (start + 1)...end, using: &state.random)
            }
            state.continuations += 1
        } else if !isHonest, asked == nil, state.random.chance(15) {
            // A part that the client did not ask for.
            (status, start) = (206, Int.random(in: 0..<body.count, using: &state.random))
        }
        var bytes = Data(body[start..<end])
        if status == 206 {
            var total = "\(body.count)"
            switch isLying ? Int.random(in: 0..<8, using: &state.random) : 8 {
            case 0:
                // Bytes from elsewhere, and says so.
                (start, end) = (Int.random(in: 0..<body.count, using: &state.random), body.count)
                bytes = Data(body[start...])
            case 1: total = "\(body.count + Int.random(in: 1...9, using: &state.random))"
            case 2: fields = [:]
            case 3: fields["Content-Type"] = "multipart/byteranges; boundary=x"
            case 4: fields["Content-Encoding"] = "gzip"
            case 5: bytes += [1, 2, 3]
            case 6: total = "*"
            case 7: fields["ETag"] = "\"another\""
            default: break
            }
            if !isLying || !state.random.chance(10) {
                fields["Content-Range"] = "bytes \(start)-\(max(start, end - 1))/\(total)"
            }
        }
        if !isChunked { fields["Content-Length"] = "\(bytes.count)" }
        guard state.random.chance(cutsOften ? 2 : 8) else {
            return (TransferResponse(status: status, headers: fields, body: bytes), nil)
        }
        let cut = bytes.prefix(Int.random(in: 0...bytes.count, using: &state.random))
        let error: DipperError = [.connectionLost, .truncated, .timedOut].randomElement(using: &state.random)!
        return (cut.isEmpty ? nil : TransferResponse(status: status, headers: fields, body: Data(cut)), error)
    }
}

/// A transport that passes requests to fickle servers, on its own thread.
private final class FickleTransport: Transport {
    private struct Running: Transfer {
        let isOver = Box(false)
        let receive: @Sendable (TransferEvent) -> Void

        func end(_ events: [TransferEvent]) {
            let isFirst = isOver.update { isOver in
                defer { isOver = true }
                return !isOver
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

    func start(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) -> any Transfer {
        let transfer = Running(receive: receive)
        let server = servers.withLock { $0[request.url]?.last }
        queue.async {
            let (response, error) = server?.answer(request) ?? (nil, .connectionFailed)
            if let status = error?.status {
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
