import Foundation
import TestSupport

@testable import Dipper

/// Videos and programs that the tests make.
enum VideoFile {
    static let isPossible = (try? FrameCommand.find("ffmpeg")) != nil

    /// MP4: a second each of red, green and blue, 160×90 at 25 pictures a second.
    static var colors: Data { get async { await made.value } }

    private static let made = Task<Data, Never> {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("colors.mp4")
        let inputs = ["red", "lime", "blue"].flatMap { ["-f", "lavfi", "-i", "color=\($0):s=160x90:r=25:d=1"] }
        await run("ffmpeg", inputs + ["-filter_complex", "concat=n=3", "-c:v", "mpeg4", "-q:v", "2", file.path])
        return withExtendedLifetime(folder) { (try? Data(contentsOf: file)) ?? Data() }
    }

    /// The same in a file of another kind, by the ending of its name.
    static func colors(as name: String, in folder: TemporaryFolder, _ options: [String] = []) async throws -> URL {
        let original = folder.url.appendingPathComponent("original.mp4")
        try await colors.write(to: original)
        let file = folder.url.appendingPathComponent(name)
        await run("ffmpeg", ["-i", original.path] + options + [file.path])
        return file
    }

    /// MP4 that is to be turned by a quarter, clockwise, when it is shown.
    static var turned: Data { get async { turned(await colors) } }

    private static func turned(_ colors: Data) -> Data {
        var bytes = colors
        // After the type: 40 bytes up to a matrix of nine numbers, of which the first is 1 in 16.16.
        guard let header = bytes.range(of: Data("tkhd".utf8)) else { return Data() }
        func set(_ index: Int, _ value: Int32) {
            let start = header.upperBound + 40 + 4 * index
            bytes.replaceSubrange(start..<start + 4, with: withUnsafeBytes(of: value.bigEndian) { Data($0) })
        }
        for (index, value) in [(0, 0), (1, 0x10000), (3, -0x10000), (4, 0)] as [(Int, Int32)] { set(index, value) }
        return bytes
    }

    /// Runs a program, which is waited for on a thread of its own: Swift's few are for the tests.
    /// - Returns: whether it ended with status 0.
    @discardableResult
    static func run(
        _ program: String, _ arguments: [String], in folder: URL? = nil, output: FileHandle? = nil
    ) async -> Bool {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(returning: runHere(program, arguments, in: folder, output: output))
            }
        }
    }

    private static func runHere(
        _ program: String, _ arguments: [String], in folder: URL?, output: FileHandle?
    ) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        if let folder { process.currentDirectoryURL = folder }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output ?? FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

/// Stands in for ffmpeg: a script.
struct FakeProgram {
    let folder = TemporaryFolder()
    var path: String { folder.url.path + "/program" }

    /// - Parameter script: for the shell, in which `$HERE` is the fake's folder, and `picture` writes a picture.
    init(_ script: String) async throws {
        try Image.sample().png.write(to: folder.url.appendingPathComponent("picture.png"))
        let text = "#!/bin/sh\nHERE='\(folder.url.path)'\npicture() { cat \"$HERE/picture.png\"; }\n\(script)\n"
        // Written by another process: a program that this one writes to cannot be run while a third is being started.
        await VideoFile.run("sh", ["-c", "printf %s \"$1\" >\"$2\"; chmod +x \"$2\"", "sh", text, path])
    }

    func lines(_ name: String) -> [String] {
        let text = try? String(contentsOf: folder.url.appendingPathComponent(name), encoding: .utf8)
        return text?.split(separator: "\n").map(String.init) ?? []
    }

    /// A picture of what may be anything; each number is another one.
    func frame(_ number: Int = 0) -> VideoFrameProvider {
        var provider = VideoFrameProvider(Data("video".utf8), key: "video", at: .seconds(number))
        provider.program = path
        return provider
    }

    /// Whether a process runs, whose number is a line of a file.
    static func isRunning(_ id: String) -> Bool {
        guard let text = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else { return false }
        return text.split(separator: ")").last?.hasPrefix(" Z") == false
    }
}

extension VideoFrameProvider {
    /// The error it ends with; `nil` if it ends well.
    var error: DipperError? {
        get async {
            do {
                _ = try await data()
                return nil
            } catch {
                return error as? DipperError
            }
        }
    }

    /// The picture, decoded.
    var image: Image { get async throws { try CodecRegistry.standard.decode(try await data(), DecodeOptions()) } }

    /// The same with one setting changed.
    func with<Value>(_ setting: WritableKeyPath<VideoFrameProvider, Value>, _ value: Value) -> VideoFrameProvider {
        var copy = self
        copy[keyPath: setting] = value
        return copy
    }
}

extension Image {
    /// Which of red, green and blue most of the picture's middle is; `nil` if none.
    var mainColor: Int? {
        let pixel = self[width / 2, height / 2]
        let parts = [pixel.x, pixel.y, pixel.z]
        return parts.indices.first { index in parts.indices.allSatisfy { (parts[$0] > 230) == ($0 == index) } }
    }
}
