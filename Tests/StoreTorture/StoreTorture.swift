import Foundation
import TortureSupport

/// Processes that share folders and are killed at random, again and again, and what must hold nevertheless.
///
///     StoreTorture [--seconds N] [--processes N] [--seed N] [--folder FOLDER]
///
/// The processes work in rounds, all of them on one of three folders; at the end of a round all are killed, and the folder
/// is looked at before the next one:
///
/// - *kept*: without a limit, a clearing, or anything else that takes entries away but a removal by key. Every process has
///   keys of its own, which it writes, fetches and removes, and which the others read. It notes in a log of its own, outside
///   of the folder, by one `write` a line, what it is about to do and what has been acknowledged (`WriteLedger.swift`). So it
///   is known of each key what must be there: what was acknowledged last, or what was being done when the process was killed.
///   Each process that starts looks for what the one before it left, among the others; so does the end of the round.
/// - *limited*: with a size limit; all write, fetch, remove, evict, flush, clear and verify whatever they like. No bytes are
///   served that were not written whole under their key; the sizes of the files and of the entries that are counted never
///   exceed the limit by more than what the processes are writing at that moment.
/// - *damaged*: as *limited*, while bytes of records and of the index are flipped. No wrong bytes are served, nobody crashes,
///   and afterwards the store puts itself right and takes new entries.
///
/// In the first two the index is never set aside: its file is the same from the first round to the last.
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
