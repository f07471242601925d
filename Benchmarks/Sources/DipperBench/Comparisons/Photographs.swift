import CPicturePeers
import Foundation
import Synchronization

/// The comparison of scrolling through photographs of a camera's size: speed and memory.
struct Photographs: Comparison {
    let name = "photos"
    let title = "Scrolling through photographs"

    private static let count = 400
    private static let atOnce = 16
    private static let limit = 64
    private static let overHTTP = "ImageCache, nginx and a directory"
    private static let localFiles = "ImageCache, local files"
    private static let loop = "libjpeg-turbo loop in C, files"

    private struct Run {
        var before = Double.nan
        var peak = Double.nan
        let perSecond: Double
        /// The processor time per photograph, in milliseconds.
        let processor: Double
    }

    func run(_ bench: Bench) async throws -> [Table] {
        let photograph = try Data(contentsOf: SamplePictures(bench).jpeg)
        let server = try await WebServer(bench, files: Self.count) { Self.copy($0, of: photograph) }
        defer {
            server.end()
            try? FileManager.default.removeItem(at: server.files)
        }
        let disk = try DiskFolder(bench)
        defer { disk.end() }
        let threads = ProcessInfo.processInfo.activeProcessorCount
        var runs: [String: [Run]] = [:]
        for round in 0..<bench.rounds(3) {
            let competitors: [(String, () throws -> Run)] = [
                (Self.overHTTP, { try Self.child(server.base, disk.make("photos"), []) }),
                (Self.loop, { try Self.plainLoop(server.files, threads) }),
                (Self.localFiles, { try Self.child(server.files.path, disk.make("local"), ["--local-files"]) }),
            ]
            for (name, measure) in competitors {
                disk.settle()
                let run = try measure()
                runs[name, default: []].append(run)
                say(
                    "  \(round) · \(name): \(run.perSecond.short) a second, \(run.processor.short) ms of the processor each, "
                        + "peak \(run.peak.short) MB")
            }
        }
        return [table(runs, threads, disk)]
    }

    /// Returns the photograph with different bytes: a JPEG comment of its own after the start of the file.
    private static func copy(_ number: Int, of photograph: Data) -> Data {
        let text = Data("number \(number)".utf8)
        return photograph.prefix(2) + Data([0xFF, 0xFE, 0, UInt8(text.count + 2)]) + text + photograph.dropFirst(2)
    }

    private static func child(_ base: String, _ folder: String, _ flags: [String]) throws -> Run {
        let numbers = try Command.run(
            Command.myself,
            [
                "photographs-child", "--base", base, "--into", folder, "--count", "\(count)", "--at-once", "\(atOnce)",
                "--memory-limit", "\(limit << 20)",
            ] + flags
        ).numbers(5)
        return Run(before: numbers[0], peak: numbers[1], perSecond: numbers[2], processor: numbers[3])
    }

    /// Measures threads that each read and decode the next file, into buffers that are used again.
    private static func plainLoop(_ folder: URL, _ threads: Int) throws -> Run {
        let next = Atomic(0)
        let processor = Mutex(0.0)
        let time = seconds(threads: threads) { _ in
            let (file, eighth, small) = (Scratch(8 << 20), Scratch(500 * 376 * 4), Scratch(400 * 300 * 4))
            let start = Timing.processorSeconds()
            while true {
                let number = next.add(1, ordering: .relaxed).oldValue
                guard number < count else { break }
                let descriptor = open(folder.path + "/\(number)", O_RDONLY)
                let length = read(descriptor, file.memory.baseAddress, file.memory.count)
                close(descriptor)
                precondition(length > 0, "a photograph is missing")
                peer_jpeg_small(
                    file.memory.baseAddress, length, eighth.memory.baseAddress, small.memory.baseAddress, 400, 300)
            }
            let own = Timing.processorSeconds() - start
            processor.withLock { $0 += own }
        }
        return Run(
            perSecond: Double(count) / time, processor: processor.withLock { $0 } * 1e3 / Double(count))
    }

    private func table(_ runs: [String: [Run]], _ threads: Int, _ disk: DiskFolder) -> Table {
        let names = [Self.overHTTP, Self.localFiles, Self.loop]
        func median(_ name: String, _ value: (Run) -> Double) -> Double { (runs[name] ?? []).map(value).median }
        var table = Table(
            "\(Self.count) photographs of 4000 × 3000, to 400 × 300",
            says: "`getImage` with `.downsample`, \(Self.atOnce) at once, in a child process with a memory limit of "
                + "\(Self.limit) MB; the loop in C runs on \(threads) threads. Each photograph has bytes of its own.",
            header: ["", "a second", "ms of the processor each", "before the cache is made, MB", "peak, MB"],
            rows: names.map { name in
                [
                    name, median(name, \.perSecond).short, median(name, \.processor).short,
                    median(name, \.before).short, median(name, \.peak).short,
                ]
            })
        table.checks = [
            Check(
                "over HTTP ÷ loop in C", median(Self.overHTTP, \.perSecond) / median(Self.loop, \.perSecond), .atLeast,
                0.85)
        ]
        table.checks += [Self.overHTTP, Self.localFiles].map { name in
            Check(
                "peak, \(name)", (runs[name] ?? []).map(\.peak).max() ?? .nan, .atMost, Double(Self.limit + 128), " MB")
        }
        table.remarks = [
            "Over HTTP the files are also received, written to the directory, and the thumbnails encoded and written; the "
                + "loop only reads and decodes. Peak: VmHWM, the highest of the runs held against the target. \(disk.remark)"
        ]
        return table
    }
}
