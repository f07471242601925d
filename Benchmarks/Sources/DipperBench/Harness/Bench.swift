import Foundation

/// A comparison of Dipper with its peers: one file, one section of RESULTS.md.
protocol Comparison: Sendable {
    /// The name on the command line.
    var name: String { get }
    /// The heading in RESULTS.md.
    var title: String { get }
    func run(_ bench: Bench) async throws -> [Table]
}

/// The settings and folders of a run, passed to each comparison.
struct Bench {
    /// The folder of the benchmark package.
    let package: URL
    /// The folder for generated files: `.work` in the package.
    let work: URL
    /// The congestion control of servers behind a shaped link.
    let congestion: String
    private let wantedRounds: Int?
    private let parts: Set<String>

    init(package: URL, rounds: Int?, parts: [String], congestion: String) throws {
        self.congestion = congestion
        self.parts = Set(parts)
        self.package = package.standardizedFileURL
        work = self.package.appendingPathComponent(".work", isDirectory: true)
        wantedRounds = rounds
        try FileManager.default.createDirectory(at: work, withIntermediateDirectories: true)
    }

    func rounds(_ usual: Int) -> Int { wantedRounds ?? usual }

    /// Returns whether the run measures a part of a comparison.
    func measures(_ part: String) -> Bool { parts.isEmpty || parts.contains(part) }

    /// Returns the path of a Python with diskcache and Pillow, for the peers; the first call creates its environment.
    func python() throws -> String {
        let environment = work.appendingPathComponent("venv").path
        let python = environment + "/bin/python"
        guard (try? Command.run(python, ["-c", "import diskcache, PIL"])) == nil else { return python }
        say("installing Python diskcache and Pillow in .work/venv")
        try Command.run("/usr/bin/env", ["python3", "-m", "venv", environment])
        try Command.run(python, ["-m", "pip", "install", "--quiet", "diskcache", "pillow"])
        return python
    }

    func peer(_ name: String) -> String { package.appendingPathComponent("peers/\(name)").path }
}

/// An error with the reason why something cannot be measured.
struct BenchError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
