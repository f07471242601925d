import Foundation
import TortureSupport

/// Kills processes that share folders at random times, and checks the folders.
///
///     StoreTorture [--seconds N] [--processes N] [--seed N] [--folder FOLDER]
///
/// The processes work in rounds, each round on one of three folders. At the end of a round all processes are killed and
/// the folder is checked:
///
/// - *kept*: a folder without a size limit, in which entries are only removed by key. Every process has its own keys,
///   which it writes, fetches and removes, and which the others only read. Before and after each change it appends a
///   line to its own log outside of the folder, with a single `write` (`WriteLedger.swift`). So the expected content of
///   each key is known: the last acknowledged change, or the change that was running when the process was killed. Each
///   process that starts checks the keys of its predecessor, and so does the check at the end of the round.
/// - *limited*: a folder with a size limit, in which all processes write, fetch, remove, evict, flush, clear and verify
///   at random. The store must serve only bytes that were completely written under the key, and the sizes of files and
///   of counted entries must not exceed the limit by more than the bytes that the processes are writing.
/// - *damaged*: like *limited*, while bytes of records and of the index are flipped. The store must serve no wrong
///   bytes, no process may crash, and afterwards the store must repair itself and accept new entries.
///
/// In the first two folders the index must never be replaced: its file stays the same from the first round to the last.
@main
struct StoreTorture {
    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.first == "worker" {
            guard arguments.count == 2, let orders = try? Orders(text: arguments[1]) else { exit(64) }
            await Worker(orders).run()
        }
        let options = Options(usage: "StoreTorture [--seconds N] [--processes N] [--seed N] [--folder FOLDER]")
        let folder = URL(fileURLWithPath: options["--folder"] ?? NSTemporaryDirectory() + "/torture-\(getpid())")
        let run = try await TortureRun(
            folder: folder, processes: max(1, options["--processes"] ?? 8),
            seed: options["--seed"] ?? UInt64.random(in: 0..<1_000_000))
        let isSound = try await run.run(for: .seconds(options["--seconds"] ?? 600.0))
        if isSound { try? FileManager.default.removeItem(at: folder) }
        exit(isSound ? 0 : 1)
    }
}
