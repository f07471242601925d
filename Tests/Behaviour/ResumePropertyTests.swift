import Synchronization
import TestSupport
import Testing

@Suite("No server makes a body of pieces that do not belong together", .timeLimit(.minutes(2)))
struct ResumePropertyTests {
    private let servers = Box<[URL: [FickleServer]]>([:])

    private func versions(_ target: URL) -> [Data] { (servers.value[target] ?? []).flatMap(\.versions) }

    private func whileServed(
        _ folder: TemporaryFolder? = nil, retries: Int, _ action: (DataCache) async throws -> Void
    ) async rethrows {
        let test = TestCache(folder: folder) { $0.retryPolicy = .fixed(.zero, retries: retries) }
        try await test.whileServing { [servers] request in
            servers.value[request.url]?.last?.answer(request) ?? .failure(.connectionFailed)
        } _: {
            try await action(test.cache)
            #expect(test.cache.queueCounts == QueueCounts())
            await test.cache.shutdown()
        }
    }

    @Test("whatever a server does, a call ends with the whole of one version, or with an error", arguments: 1...4)
    func property(seed: Int) async throws {
        var random = SeededRandom(UInt64(seed))
        var (succeeded, continued) = (0, 0)
        let count = workload(200)
        await whileServed(retries: 8) { cache in
            for number in 0..<count {
                let server = FickleServer(seed: random.next())
                let target = url("\(number)")
                servers.update { $0[target] = [server] }
                let task = random.chance(2) ? cache.getData(target) : cache.slowGetData(target)
                if let data = try? await task.value {
                    succeeded += 1
                    if server.continuations > 0 { continued += 1 }
                    #expect(server.versions.contains(data), "case \(number)")
                    if let kept = cache.readData(for: target) { #expect(kept == data, "case \(number)") }
                }
                if number % 100 == 99 { cache.clearMemory() }
            }
        }
        #expect(succeeded > count / 3, "the servers are not so bad: \(succeeded) of \(count)")
        #expect(continued > count / 10, "bodies were continued: \(continued) of \(count)")
    }

    @Test("the same with calls that are taken back and made again, over a folder that is opened anew")
    func propertyOnDisk() async throws {
        var random = SeededRandom(5)
        let folder = TemporaryFolder()
        var (calls, succeeded) = (0, 0)
        for round in 0..<4 {
            await whileServed(folder, retries: 2) { cache in
                for number in 0..<30 {
                    // The same addresses in all rounds, so that what one has left is found by the next.
                    let target = url("\(number % 15)")
                    servers.update { $0[target, default: []].append(FickleServer(seed: random.next())) }
                    for _ in 0..<3 {
                        let task = random.chance(2) ? cache.getRemoteData(target) : cache.getData(target)
                        calls += 1
                        if random.chance(3) { task.cancel() }
                        if let data = try? await task.value {
                            succeeded += 1
                            #expect(versions(target).contains(data), "round \(round), case \(number)")
                        }
                    }
                    if random.chance(3) { cache.removeData(for: target) }
                }
            }
        }
        // A third of the calls is taken back.
        #expect(succeeded > calls / 6, "\(succeeded) of \(calls)")
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
    private let changesOften, cutsOften, isHonest, isChunked: Bool
    private let mark: UInt64

    init(seed: UInt64) {
        var random = SeededRandom(seed)
        mark = random.next()
        validation = random.chance(3) ? Validation.allCases.randomElement(using: &random)! : .tag
        changesOften = random.chance(4)
        cutsOften = !random.chance(4)
        isHonest = random.chance(2)
        isChunked = random.chance(5)
        let first = Self.body(&random)
        state = Mutex(State(random: random, versions: [first]))
    }

    private static func body(_ random: inout SeededRandom) -> Data {
        Data((0..<Int.random(in: 1...120, using: &random)).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }

    var versions: [Data] { state.withLock { $0.versions } }
    var continuations: Int { state.withLock { $0.continuations } }

    func answer(_ request: TransferRequest) -> ScriptedTransport.Step {
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

    private func answer(_ request: TransferRequest, _ state: inout State) -> ScriptedTransport.Step {
        if state.random.chance(changesOften ? 3 : 25), state.versions.count < 6 {
            state.versions.append(Self.body(&state.random))
        }
        if state.random.chance(20) {
            return [.failure(.connectionFailed), .failure(.timedOut), .text("", status: 503)]
                .randomElement(using: &state.random)!
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
            if asked >= body.count { return .text("", status: 416) }
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
            return .response(TransferResponse(status: status, headers: fields, body: bytes))
        }
        let cut = bytes.prefix(Int.random(in: 0...bytes.count, using: &state.random))
        let error: DipperError = [.connectionLost, .truncated, .timedOut].randomElement(using: &state.random)!
        if cut.isEmpty { return .failure(error) }
        return .interrupted(TransferResponse(status: status, headers: fields, body: Data(cut)), error)
    }
}
