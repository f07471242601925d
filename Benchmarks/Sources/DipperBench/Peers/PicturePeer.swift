import Dipper
import Foundation

/// A program of `peers` that decodes and resizes on demand and times itself; `peers/pictures.h` describes its commands.
final class PicturePeer {
    private let process = Process()
    private let commands: FileHandle
    private let answers: LineReader
    private let cleanUp: Int

    private init(_ program: String, _ arguments: [String]) throws {
        let (input, output) = (Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        commands = input.fileHandleForWriting
        answers = LineReader(output.fileHandleForReading)
        try process.run()
        cleanUp = CleanUp.add { [process] in
            // SIGKILL and not SIGTERM: a child process also ignores the signals that this program ignores.
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    func end() { CleanUp.run(cleanUp) }

    static func pillow(_ bench: Bench) throws -> PicturePeer {
        try PicturePeer(bench.python(), [bench.peer("pictures.py")])
    }

    static func pillowSIMD(_ bench: Bench) throws -> PicturePeer {
        try PicturePeer(bench.pythonSIMD(), [bench.peer("pictures.py")])
    }

    static func openCV(_ bench: Bench) throws -> PicturePeer {
        try PicturePeer(bench.python(), [bench.peer("pictures_opencv.py")])
    }

    static func vips(_ bench: Bench) throws -> PicturePeer {
        try PicturePeer(bench.compile("pictures_vips", "vips"), [])
    }

    static func pixbuf(_ bench: Bench) throws -> PicturePeer {
        try PicturePeer(bench.compile("pictures_pixbuf", "gdk-pixbuf-2.0", "gio-2.0"), [])
    }

    /// Measures decoding of a file.
    /// - Parameter size: The size to decode to; `nil` for the whole picture.
    func decode(_ file: URL, to size: PixelSize?) throws -> Timing { try run("decode", file, size) }

    func resize(_ file: URL, to size: PixelSize) throws -> Timing { try run("resize", file, size) }

    /// Measures blurring of the picture of a file.
    /// - Parameter sigma: The standard deviation in pixels.
    func blur(_ file: URL, sigma: Int) throws -> Timing {
        try run("blur", file, PixelSize(width: sigma, height: 0))
    }

    /// Measures rounding of the corners of the picture of a file.
    /// - Parameter radius: The radius in pixels.
    func roundCorners(_ file: URL, radius: Int) throws -> Timing {
        try run("round", file, PixelSize(width: radius, height: 0))
    }

    private func run(_ action: String, _ file: URL, _ size: PixelSize?) throws -> Timing {
        try commands.write(contentsOf: Data("\(action) \(file.path) \(size?.width ?? 0) \(size?.height ?? 0)\n".utf8))
        let answer = try answers.next()
        let numbers = answer.split(separator: " ").compactMap { Double($0) }
        guard numbers.count == 2 else { throw BenchError("a picture peer answers \(answer)") }
        return Timing(processor: numbers[0], wall: numbers[1])
    }
}
