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
    /// Whether a comparison leaves out slow peers and figures without a target.
    let isQuick: Bool
    private let wantedRounds: Int?

    init(package: URL, rounds: Int?, isQuick: Bool) throws {
        self.isQuick = isQuick
        self.package = package.standardizedFileURL
        work = self.package.appendingPathComponent(".work", isDirectory: true)
        wantedRounds = rounds
        try FileManager.default.createDirectory(at: work, withIntermediateDirectories: true)
    }

    /// Returns the number of rounds: that of the command line, or one of these.
    func rounds(_ usual: Int, quick: Int? = nil) -> Int { wantedRounds ?? (isQuick ? quick ?? usual : usual) }

    /// Returns the path of a Python with diskcache and Pillow, for the peers; the first call creates its environment.
    func python() throws -> String {
        let environment = work.appendingPathComponent("venv").path
        let python = environment + "/bin/python"
        guard (try? Command.run(python, ["-c", "import cv2, diskcache, PIL"])) == nil else { return python }
        say("installing Python diskcache, OpenCV and Pillow in .work/venv")
        try Command.run("/usr/bin/env", ["python3", "-m", "venv", environment])
        try Command.run(
            python, ["-m", "pip", "install", "--quiet", "diskcache", "opencv-python-headless", "pillow"])
        return python
    }

    /// Python with pillow-simd, which takes the place of Pillow and is built from source, for AVX2.
    func pythonSIMD() throws -> String {
        let environment = work.appendingPathComponent("venv-simd").path
        let python = environment + "/bin/python"
        guard (try? Command.run(python, ["-c", "import PIL"])) == nil else { return python }
        say("building pillow-simd in .work/venv-simd")
        try Command.run("/usr/bin/env", ["python3", "-m", "venv", environment])
        try Command.run(
            python, ["-m", "pip", "install", "--quiet", "--upgrade", "pybind11", "setuptools>=77", "wheel"])
        try Command.run(
            "/usr/bin/env",
            [
                "CC=cc -mavx2", python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
                "--no-binary", "pillow-simd", "pillow-simd",
            ])
        return python
    }

    func peer(_ name: String) -> String { package.appendingPathComponent("peers/\(name)").path }

    /// The photographs of the sample.
    var photographs: URL {
        package.deletingLastPathComponent().appendingPathComponent("Samples/Scrolling/Assets/photos")
    }

    /// Compiles a peer in C with the flags of libraries that pkg-config knows, and returns the path of the program.
    func compile(_ name: String, _ libraries: String...) throws -> String {
        try compile(source: peer(name + ".c"), name, libraries)
    }

    /// Compiles a peer in C with flags, for libraries that pkg-config does not know.
    func compile(_ name: String, flags: [String]) throws -> String {
        try compile(source: peer(name + ".c"), name, flags: flags)
    }

    func compile(source: String, _ name: String, _ libraries: [String]) throws -> String {
        let flags =
            libraries.isEmpty
            ? "" : try Command.run(Command.require("pkg-config"), ["--cflags", "--libs"] + libraries).output
        return try compile(source: source, name, flags: flags.split(whereSeparator: \.isWhitespace).map(String.init))
    }

    private func compile(source: String, _ name: String, flags: [String]) throws -> String {
        let program = work.appendingPathComponent(name).path
        try Command.run(Command.require("gcc"), ["-O2", "-Wall", "-o", program, source] + flags)
        return program
    }
}

/// An error with the reason why something cannot be measured.
struct BenchError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// The reason why something cannot be measured for this user, which is no failure of the run.
struct Unsuitable: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
