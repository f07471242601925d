import Dipper
import DipperTesting
import Foundation
import TortureSupport

/// The calls, and the failures that happen while they run.
///
/// Each round starts some hundreds of calls and waits for all of them. Meanwhile the network goes down and up, the
/// server is killed and restarted, memory pressure rises, the disk fills up, entries are removed and the stores
/// cleared. Some bodies break off, arrive slowly or never, and some small files decode to large ones. Before each
/// sample these failures end, and each call must have ended exactly once.
final class SoakRun {
    private let minutes: Double
    private var numbers: SeededRandom
    private let disk: SmallDisk
    private let server: Server
    private let network = ManualNetwork()
    private let pressure = ManualMemoryPressure()
    private let tally = Tally()
    private let data: DataCache
    private let images: ImageCache
    private let seed: UInt64

    init(minutes: Double, seed: UInt64) async throws {
        (self.minutes, self.seed) = (minutes, seed)
        numbers = SeededRandom(seed)
        disk = try SmallDisk()
        server = try await Server()
        data = DataCache(Self.configuration(disk.folder.appendingPathComponent("data"), network, pressure))
        var configuration = ImageCache.Configuration(directory: disk.folder.appendingPathComponent("images"))
        configuration.data = Self.configuration(disk.folder.appendingPathComponent("images"), network, pressure)
        configuration.data.name = "images"
        configuration.memoryLimit = 16 << 20
        configuration.limits.pixels = 5_000_000
        configuration.limits.bytes = 32 << 20
        images = ImageCache(configuration)
    }

    private static func configuration(
        _ folder: URL, _ network: ManualNetwork, _ pressure: ManualMemoryPressure
    ) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: folder)
        configuration.memoryLimit = 4 << 20
        configuration.diskLimit = 6 << 20
        configuration.partialLimit = 1 << 20
        configuration.stagingLimit = 1 << 20
        configuration.networkMonitor = network
        configuration.memoryPressure = pressure
        configuration.retryPolicy = .fixed(.milliseconds(20), retries: 2)
        configuration.timeout = .milliseconds(400)
        configuration.network.maximumBodySize = 4 << 20
        configuration.network.maximumDecodedSize = 8 << 20
        configuration.network.keptConnections = 8
        configuration.logger.logLevel = .critical
        return configuration
    }

    func run() async throws -> Bool {
        let length = minutes * 60
        let warmUp = minutes >= 10 ? 300 : length / 4
        say("soak: seed \(seed), \(minutes) minutes; compared from \(Int(warmUp)) s on")
        if !disk.isMounted { say("  the disk is never full: only root may mount a small one") }
        let start = ContinuousClock.now
        func seconds() -> Double { (ContinuousClock.now - start) / .seconds(1) }
        let watch = watch(start)
        var samples: [Sample] = []
        var next = 0.0
        while seconds() < length {
            await round()
            guard seconds() >= next else { continue }
            await settle()
            samples.append(.now(seconds()))
            if let sample = samples.last, samples.count % max(1, Int(minutes / 3)) == 0 { say(sample.line) }
            next = seconds() + max(2, length / 200)
        }
        await settle()
        samples.append(.now(seconds()))
        await images.shutdown()
        await data.shutdown()
        watch.cancel()
        server.stop()
        let verdict = SampleVerdict(samples, warmUp: warmUp)
        var problems = verdict.problems
        if !tally.open.isEmpty { problems.append("calls that never ended: \(tally.open.prefix(5))") }
        if !tally.endedAgain.isEmpty { problems.append("calls that ended twice: \(tally.endedAgain.prefix(5))") }
        if tally.answered < tally.begun / 10 { problems.append("only \(tally.answered) calls were answered") }
        for problem in problems { say("  \(problem)") }
        let calls = "\(tally.begun) calls, \(tally.answered) with an answer"
        say("soak: \(calls); \(verdict.summary); \(problems.count) problems")
        return problems.isEmpty
    }

    /// Ends the program if no call begins or ends for a minute, and prints the running calls.
    private func watch(_ start: ContinuousClock.Instant) -> Task<Void, Never> {
        let tally = tally
        return Task.detached {
            var last = (begun: -1, open: -1)
            while (try? await Task.sleep(for: .seconds(60))) != nil {
                let now = (begun: tally.begun, open: tally.open.count)
                if now == last {
                    say("  nothing has happened for a minute; under way: \(tally.open.prefix(10))")
                    exit(2)
                }
                last = now
            }
        }
    }

    private func round() async {
        for _ in 0..<200 {
            switch numbers.below(100) {
            case 0: network.isUp = numbers.below(3) > 0
            case 1: pressure.level = [.normal, .moderate, .severe][numbers.below(3)]
            case 2: numbers.below(10) == 0 ? server.stop() : server.start()
            case 3: numbers.below(3) == 0 ? disk.fill() : disk.empty()
            case 4..<14: change()
            case 14..<60: callData()
            default: callImages()
            }
        }
        await restore()
        await tally.idle()
    }

    private func restore() async {
        disk.empty()
        await server.startAndWait()
        pressure.level = .normal
        network.isUp = true
    }

    private func settle() async {
        await restore()
        await tally.idle()
        await data.synchronize()
        await images.synchronize()
        data.clearMemory()
        images.clearMemory()
    }

    // MARK: Calls

    private func url(_ path: String, _ query: String = "") -> URL {
        URL(string: "http://127.0.0.1:\(server.port)\(path)\(query)") ?? URL(fileURLWithPath: "/")
    }

    private func callData() {
        let faults = [
            "", "", "", "?gzip=1", "?cut=1000", "?stall=500", "?drip=4000,2", "?status=503", "?status=404",
            "?noanswer=1", "?reset=2000", "?chunked=1", "?redirect=/bytes/10/x", "?loop=1",
            "?etag=a&cacheControl=max-age%3D0",
        ]
        let path = "/bytes/\([100, 3_000, 60_000, 400_000][numbers.below(4)])/\(numbers.below(300))"
        let isBomb = numbers.below(40) == 0
        let bomb = url(Pictures.gzipBomb, "?header=Content-Encoding:gzip")
        var request = DataRequest(isBomb ? bomb : url(path, faults[numbers.below(faults.count)]))
        request.priority = [.low, .normal, .high][numbers.below(3)]
        if numbers.below(10) == 0 { request.cachePolicy = .ignoreCache }
        let end = tally.begin("data \(request.urlString)")
        let task = numbers.below(3) == 0 ? data.slowGetData(request) : data.getData(request)
        follow(task, end)
    }

    private func callImages() {
        let names = Pictures.names + Pictures.names + Pictures.bombs
        let name = names[numbers.below(names.count)]
        var request = ImageRequest(url(name, "?n=\(numbers.below(20))&cacheControl=max-age%3D60"))
        if numbers.below(2) == 0 {
            request = request.processed(by: .resize(to: TargetSize(width: 100, height: 100)))
        }
        let end = tally.begin("image \(name)")
        let task = numbers.below(3) == 0 ? images.slowGetImage(request) : images.getImage(request)
        if numbers.below(4) == 0 { task.onPreview { _ in } }
        follow(task, end)
    }

    /// Has the end of a call counted, by a hook or by a task that waits for it, and changes some calls.
    private func follow(_ task: some FetchTask, _ end: @escaping @Sendable (_ isAnswered: Bool) -> Void) {
        if numbers.below(2) == 0 {
            task.onEnd { end((try? $0.get()) != nil) }
        } else {
            Task { end((try? await task.value) != nil) }
        }
        switch numbers.below(8) {
        case 0: task.cancel()
        case 1: task.moveToSlowQueue()
        case 2: task.priority = .high
        default: break
        }
    }

    private func change() {
        let one = url("/bytes/3000/\(numbers.below(300))")
        switch numbers.below(12) {
        case 0: data.clear()
        case 1: images.clear()
        case 2: data.flush(olderThan: .seconds(5))
        case 3: data.trimDisk(to: 1 << 20)
        case 4: data.removeData(for: one)
        case 5: images.removeImage(for: url(Pictures.names[0], "?n=\(numbers.below(20))&cacheControl=max-age%3D60"))
        case 6: data.cancelAll()
        case 7: images.cancelAll()
        case 8: _ = data.readData(for: one)
        case 9: data.clearMemory()
        default: try? data.addData(Data(repeating: 7, count: numbers.below(100_000)), for: one)
        }
    }
}
