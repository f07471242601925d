import FaultServer
import Foundation
import TortureSupport

final class TortureRun {
    private let folder: URL
    private let processes: Int
    private let seed: UInt64
    private var random: SeededRandom
    private let server: FaultServer
    private var identities: [Orders.Mode: UInt64] = [:]

    private var problems: [String] = []
    private var kills = 0
    private var counts: [Character: Int] = [:]
    private var largest: [Orders.Mode: Int] = [:]
    private var flips = 0
    /// The number of requests for the rest of a body.
    private var continued = 0
    /// The largest number of partial files in a folder.
    private var partials = 0

    init(folder: URL, processes: Int, seed: UInt64) async throws {
        (self.folder, self.processes, self.seed) = (folder, processes, seed)
        random = SeededRandom(seed)
        server = try await FaultServer.start()
        for name in ["kept", "limited", "damaged", "logs"] {
            try FileManager.default.createDirectory(
                at: folder.appendingPathComponent(name), withIntermediateDirectories: true)
        }
    }

    private func url(_ mode: Orders.Mode) -> URL { folder.appendingPathComponent(mode.rawValue) }
    private func log(_ place: Int, _ mode: Orders.Mode) -> URL { folder.appendingPathComponent("logs/\(mode)\(place)") }

    func run(for duration: Duration) async throws -> Bool {
        say("torture: seed \(seed), \(processes) processes, \(duration), in \(folder.path)")
        let end = ContinuousClock.now + duration
        let round = max(.seconds(2), min(.seconds(10), duration / 7))
        let modes: [Orders.Mode] = [.kept, .limited, .kept, .limited, .damaged]
        var number = 0
        repeat {
            let mode = modes[number % modes.count]
            number += 1
            await work(mode, until: min(.now + round, end))
            continued += server.requests.count { $0.header("Range") != nil }
            server.resetLog()
            let check = RoundCheck(mode: mode, folder: url(mode), logs: (0..<processes).map { log($0, mode) })
            let (found, counts) = try await check.problems()
            for (kind, count) in counts { self.counts[kind, default: 0] += count }
            problems += found
            checkIndex(mode)
            for problem in found.prefix(10) { say("  round \(number), \(mode): \(problem)") }
            say("  round \(number), \(mode): \(kills) kills so far, \(problems.count) problems")
        } while .now < end
        await server.stop()
        tell()
        return problems.isEmpty
    }

    private func work(_ mode: Orders.Mode, until end: ContinuousClock.Instant) async {
        var living: [Int: (child: Child, due: ContinuousClock.Instant)] = [:]
        var tick = 0
        while .now < end {
            for place in 0..<processes {
                if let (child, due) = living[place] {
                    let reason = child.endedByItself()
                    if reason == nil, due > .now { continue }
                    finish(child, place, mode, reason)
                }
                living[place] = start(place, mode)
            }
            tick += 1
            if tick.isMultiple(of: 10) { measure(mode) }
            if mode == .damaged { flip() }
            // Sets the pace of the kills; no event is awaited.
            try? await Task.sleep(for: .milliseconds(20))
        }
        for (place, (child, _)) in living { finish(child, place, mode) }
    }

    /// Kills a process, unless it has ended by itself, which is a problem.
    private func finish(_ child: Child, _ place: Int, _ mode: Orders.Mode, _ reason: String? = nil) {
        guard let reason = reason ?? child.end() else { return kills += 1 }
        problems.append("\(mode): process \(place) ended by itself: \(reason)")
        say("  \(problems.last ?? "")")
    }

    private func start(_ place: Int, _ mode: Orders.Mode) -> (Child, ContinuousClock.Instant)? {
        let orders = Orders(
            mode: mode, folder: url(mode), log: log(place, mode), place: place, processes: processes,
            seed: random.next(), port: server.port)
        // Most processes are killed while they open the folder or soon afterwards.
        let life = random.oneIn(4) ? 3_000 : 800
        guard let text = try? orders.text, let child = Child(again: ["worker", text]) else { return nil }
        return (child, .now + .milliseconds(Int.random(in: 50...life, using: &random)))
    }

    // MARK: Files

    private func measure(_ mode: Orders.Mode) {
        let files = FolderFiles(url(mode))
        partials = max(partials, files.partials)
        largest[mode] = max(largest[mode, default: 0], files.recordBytes)
        if mode == .limited, files.recordBytes > Orders.limit + Orders.staged(by: processes) {
            problems.append("\(files.recordBytes) bytes lie in a folder whose limit is \(Orders.limit)")
        }
        checkIndex(mode)
    }

    /// Checks that the index is still the file of the first round.
    private func checkIndex(_ mode: Orders.Mode) {
        guard mode != .damaged else { return }
        let files = FolderFiles(url(mode))
        if files.hasBrokenIndex { problems.append("\(mode): the index has been set aside") }
        guard let identity = files.indexIdentity else { return }
        if let first = identities[mode], first != identity { problems.append("\(mode): the index is another one") }
        identities[mode] = identity
    }

    private func flip() {
        let files = FolderFiles(url(.damaged))
        let paths = random.oneIn(10) ? files.indexFiles : files.records.keys.sorted()
        guard let path = paths.randomElement(using: &random) else { return }
        let file = open(path, O_RDWR | O_CLOEXEC)
        guard file >= 0 else { return }
        defer { close(file) }
        let size = Int(lseek(file, 0, SEEK_END))
        guard size > 0 else { return }
        let place = off_t(Int.random(in: 0..<size, using: &random))
        var byte: UInt8 = 0
        guard pread(file, &byte, 1, place) == 1 else { return }
        byte ^= 1 << UInt8.random(in: 0..<8, using: &random)
        if pwrite(file, &byte, 1, place) == 1 { flips += 1 }
    }

    private func tell() {
        for problem in problems.prefix(40) { say("  \(problem)") }
        say(
            """
            torture: seed \(seed): \(kills) kills; acknowledged: \(counts["=", default: 0]) writes and fetches, \
            \(counts["~", default: 0]) removals; \(continued) requests for the rest of a body, \
            at most \(partials) partial files in a folder; \(counts["#", default: 0]) reads, verifications, trims and flushes; \
            at most \(largest[.limited, default: 0]) bytes of records in a folder of \(Orders.limit); \
            \(flips) bytes flipped; \(problems.count) problems
            """)
    }
}
