import Foundation
import TortureSupport

/// Records workloads of the store, builds the states that a power cut can leave, and opens the store in each of them.
///
/// `DiskState.swift` defines these states, `Expectation.swift` the entries that must then be found.
///
///     PowerCut [--states N] [--seed N] [--folder FOLDER]
///     PowerCut --replay FOLDER/RECORDING --state N
///
/// A wrong state is kept in FOLDER together with its recording; the second form builds that state again from the
/// recording and opens it.
@main
struct PowerCut {
    private static let statesOfWorkload = 50

    private let states: Int
    private let seed: UInt64
    private let folder: URL

    static func main() async throws {
        let options = Options(
            usage: """
                PowerCut [--states N] [--seed N] [--folder FOLDER]
                       PowerCut --replay FOLDER/RECORDING --state N
                """)
        let program = PowerCut(options)
        let replay: String? = options["--replay"]
        let failed =
            if let replay { try await program.again(replay, options["--state"] ?? 0) } else { try await program.run() }
        exit(failed == 0 ? 0 : 1)
    }

    private init(_ options: Options) {
        states = options["--states"] ?? 10_000
        seed = options["--seed"] ?? UInt64.random(in: 0..<1_000_000)
        folder = URL(fileURLWithPath: options["--folder"] ?? ".run/powercut")
    }

    /// A folder in memory where possible, because nothing here depends on a real device.
    private static let scratch = URL(
        fileURLWithPath: access("/dev/shm", W_OK) == 0 ? "/dev/shm" : NSTemporaryDirectory()
    ).appendingPathComponent("powercut-\(getpid())")

    private func run() async throws -> Int {
        say("powercut: seed \(seed), \(states) states")
        defer { try? FileManager.default.removeItem(at: Self.scratch) }
        let start = ContinuousClock.now
        var opened = 0
        var failed = 0
        var steps = 0
        var continued = 0
        var workload: UInt64 = 0
        while opened < states {
            let recording = try await record(seed &* 1_000_000 &+ workload)
            steps += recording.steps.count
            if !recording.failures.isEmpty {
                failed += 1
                try tell(recording, 0, recording.failures)
            }
            for number in 0..<min(Self.statesOfWorkload, states - opened) {
                let (problems, rests) = try await open(recording, number)
                opened += 1
                continued += rests
                if problems.isEmpty { continue }
                failed += 1
                if failed <= 20 { try tell(recording, number, problems) }
            }
            workload += 1
            if workload.isMultiple(of: 20) {
                say("  \(opened) states opened, \(failed) wrong, \(ContinuousClock.now - start)")
            }
        }
        say(
            """
            powercut: seed \(seed): \(opened) states of \(workload) workloads (\(steps) steps) in \
            \(ContinuousClock.now - start): \(failed) wrong; \(continued) bodies were continued from partial files
            """)
        return failed
    }

    private func again(_ replay: String, _ state: Int) async throws -> Int {
        defer { try? FileManager.default.removeItem(at: Self.scratch) }
        let recording = try PropertyListDecoder().decode(
            Recording.self, from: Data(contentsOf: URL(fileURLWithPath: replay)))
        let problems = try await open(recording, state).problems
        for problem in problems { say("  \(problem)") }
        say("powercut: state \(state) is \(problems.isEmpty ? "right" : "wrong")")
        return problems.count
    }

    private func record(_ seed: UInt64) async throws -> Recording {
        let folder = try Self.emptyFolder("workload")
        let recording = try await Workload(seed: seed, folder: folder).record()
        // An incomplete recording would lead to states that a power cut cannot leave.
        let whole = DiskState(whole: recording).files
        for path in Set(FileManager.default.subpaths(atPath: folder.path) ?? []).union(whole.keys) {
            var isFolder: ObjCBool = false
            let file = folder.path + "/" + path
            if FileManager.default.fileExists(atPath: file, isDirectory: &isFolder), isFolder.boolValue { continue }
            if path.hasSuffix("-shm") || path.contains("leases/") { continue }
            let bytes = FileManager.default.contents(atPath: file)
            guard let recorded = whole[path], bytes == Data(recorded) else {
                throw UnknownCall(name: "the recording does not tell how \(path) came about")
            }
        }
        return recording
    }

    private func open(_ recording: Recording, _ number: Int) async throws -> (problems: [String], continued: Int) {
        var random = SeededRandom(recording.seed &+ UInt64(number) &* 0x9E37_79B9)
        let cut = Int.random(in: 0...recording.steps.count, using: &random)
        let state = DiskState(recording, cut: cut, seed: random.next())
        let folder = try Self.emptyFolder("state")
        try state.write(into: folder)
        // The server may have newer versions after the power cut.
        let server = BreakingServer(recording.served.mapValues { random.oneIn(4) ? $0 + 1_000_000 : $0 })
        let check = StateCheck(
            folder: folder, recording: recording, cut: cut, readsAtOnce: random.oneIn(2), server: server)
        return (await check.problems(), server.continued)
    }

    private static func emptyFolder(_ name: String) throws -> URL {
        let folder = scratch.appendingPathComponent(name)
        try? FileManager.default.removeItem(at: folder)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return folder
    }

    private func tell(_ recording: Recording, _ number: Int, _ problems: [String]) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let file = folder.appendingPathComponent("\(recording.seed).recording")
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        try encoder.encode(recording).write(to: file)
        say("  wrong: PowerCut --replay \(file.relativePath) --state \(number)")
        for problem in problems.prefix(8) { say("    \(problem)") }
    }
}
