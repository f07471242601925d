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
    private var seconds = 600.0
    private var processes = 8
    private var seed = UInt64.random(in: 0..<1_000_000)
    private var folder = URL(fileURLWithPath: NSTemporaryDirectory()).appendingPathComponent("torture-\(getpid())")

    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.first == "worker" {
            guard let orders = Orders(Array(arguments.dropFirst())) else { exit(64) }
            await Worker(orders).run()
        }
        var program = StoreTorture()
        guard program.parse(arguments) else {
            FileHandle.standardError.write(
                Data("usage: StoreTorture [--seconds N] [--processes N] [--seed N] [--folder FOLDER]\n".utf8))
            exit(64)
        }
        let run = try await TortureRun(
            folder: program.folder, processes: program.processes, seed: program.seed)
        let isSound = try await run.run(for: .seconds(program.seconds))
        if isSound { try? FileManager.default.removeItem(at: program.folder) }
        exit(isSound ? 0 : 1)
    }

    private mutating func parse(_ arguments: [String]) -> Bool {
        guard arguments.count.isMultiple(of: 2) else { return false }
        for index in stride(from: 0, to: arguments.count, by: 2) {
            let value = arguments[index + 1]
            switch arguments[index] {
            case "--seconds": seconds = Double(value) ?? seconds
            case "--processes": processes = Int(value).map { max(1, $0) } ?? processes
            case "--seed": seed = UInt64(value) ?? seed
            case "--folder": folder = URL(fileURLWithPath: value)
            default: return false
            }
        }
        return true
    }
}

/// Writes a line to standard output at once.
func say(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
