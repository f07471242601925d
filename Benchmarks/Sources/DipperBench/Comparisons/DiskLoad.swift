import DipperData
import Foundation

/// The stores of one setting of ``DiskEntries``. Every turn of writing adds new entries; every turn of reading reads
/// the entries of the latest turn.
final class DiskLoad {
    private let disk: DiskFolder
    private let size: Int
    private let count: Int
    private let bodies: [Data]
    private let oursFolder: String
    private var cache: DataCache
    private var uncached: DataCache?
    private let plain: PlainFiles
    private let pythonProgram: String
    private let pythonScript: String
    private let pythonFolder: String
    private var random = SeededGenerator(seed: 5)
    private var keys: [CacheKey] = []
    private var paths: [String] = []
    private var round = 0
    private var pythonRound = 0

    init(_ disk: DiskFolder, _ bench: Bench, python: String?, size: Int, count: Int) throws {
        self.disk = disk
        self.size = size
        self.count = count
        var random = SeededGenerator(seed: 4)
        bodies = (0..<16).map { _ in random.bytes(size) }
        oursFolder = try disk.make("ours-\(size)")
        cache = DataCache(Self.configuration(oursFolder, memoryLimit: 1 << 30))
        plain = try PlainFiles(root: disk.make("plain-\(size)"))
        pythonFolder = try disk.make("python-\(size)")
        pythonProgram = python ?? ""
        pythonScript = bench.peer("disk_cache.py")
    }

    static func configuration(_ folder: String, memoryLimit: Int) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(
            directory: URL(fileURLWithPath: folder, isDirectory: true))
        configuration.memoryLimit = memoryLimit
        configuration.diskLimit = nil
        return configuration
    }

    func end() async {
        await cache.shutdown()
        await uncached?.shutdown()
        for folder in ["ours", "plain", "python"] {
            try? FileManager.default.removeItem(atPath: "\(disk.path)/\(folder)-\(size)")
        }
        disk.settle()
    }

    // MARK: Writing, µs per entry

    func writeOurs() async throws -> Double {
        round += 1
        keys = (0..<count).map { CacheKey("https://images.example.com/photos/\(round)/\($0)") }
        let before = cache.diskCount
        disk.settle()
        let time = try await seconds {
            for (number, key) in keys.enumerated() { try cache.addData(bodies[number % 16], for: key) }
            await cache.synchronize()
        }
        let written = cache.diskCount - before
        guard written == count else { throw BenchError("\(written) of \(count) entries were written") }
        cache.clearMemory()
        return time * 1e6 / Double(count)
    }

    func writePlain() throws -> Double {
        let names = (0..<count).map { _ in random.digestName() }
        paths = names.map { plain.path($0) }
        disk.settle()
        let time = try seconds {
            for (number, name) in names.enumerated() {
                try plain.write(bodies[number % 16], name, to: paths[number])
            }
        }
        return time * 1e6 / Double(count)
    }

    func python(_ action: String) throws -> Double {
        if action == "write" {
            pythonRound += 1
            disk.settle()
        }
        return try Command.number(
            pythonProgram, [pythonScript, action, pythonFolder, "\(pythonRound)", "\(count)", "\(size)"])
    }

    // MARK: Reading, µs per entry

    func readOurs() throws -> Double {
        cache.clearMemory()
        let time = try read(from: cache)
        cache.clearMemory()
        return time
    }

    /// Measures reading through a cache whose memory tier keeps nothing.
    func readOursWithoutMemory() throws -> Double {
        let cache = uncached ?? DataCache(Self.configuration(oursFolder, memoryLimit: 0))
        uncached = cache
        return try read(from: cache)
    }

    private func read(from cache: DataCache) throws -> Double {
        let time = try seconds {
            for key in keys {
                guard cache.readData(for: key)?.count == size else { throw BenchError("\(key) is missing") }
            }
        }
        return time * 1e6 / Double(count)
    }

    func readPlain(keeping: Bool) throws -> Double {
        var kept: [Data] = []
        kept.reserveCapacity(count)
        let time = try seconds {
            for path in paths {
                let data = try PlainFiles.read(path)
                guard data.count == size else { throw BenchError("\(path) is cut short") }
                if keeping { kept.append(data) }
            }
        }
        keep(kept)
        return time * 1e6 / Double(count)
    }
}
