import TestSupport
import Testing

@testable import Dipper

enum VideoFile {
    static let isPossible = (try? FrameCommand.find("ffmpeg")) != nil

    /// An MP4 file: one second each of red, green and blue, 160×90 pixels, 25 frames a second.
    static var colors: Data { get async { await made.value } }

    private static let made = Task<Data, Never> {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("colors.mp4")
        let inputs = ["red", "lime", "blue"].flatMap { ["-f", "lavfi", "-i", "color=\($0):s=160x90:r=25:d=1"] }
        await run("ffmpeg", inputs + ["-filter_complex", "concat=n=3", "-c:v", "mpeg4", "-q:v", "2", file.path])
        return withExtendedLifetime(folder) { (try? Data(contentsOf: file)) ?? Data() }
    }

    /// Writes the film of ``colors`` into a file whose format follows from the extension of its name.
    static func colors(as name: String, in folder: TemporaryFolder, _ options: [String] = []) async throws -> URL {
        let original = folder.url.appendingPathComponent("original.mp4")
        try await colors.write(to: original)
        let file = folder.url.appendingPathComponent(name)
        await run("ffmpeg", ["-i", original.path] + options + [file.path])
        return file
    }

    /// An MP4 file of ``colors`` that a player must rotate by 90° clockwise.
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

    static func run(_ program: String, _ arguments: [String], output: FileHandle? = nil) async {
        _ = try? await ChildProcess("/usr/bin/env", [program] + arguments, output: output).output()
    }
}

/// A script in the place of ffmpeg.
///
/// In the script, `$HERE` is the fake's folder, `picture` writes a picture, `watch` lets the test see the end of the
/// script and of its children, `tell` then sends a line to the test, and `pause` waits for ``letGo()``.
struct FakeProgram {
    let folder = TemporaryFolder()
    var path: String { folder.path + "/program" }
    /// The lines that the script tells. The stream ends when the script and all of its children are gone.
    let news: AsyncStream<String>

    init(_ script: String) async throws {
        try Image.sample().png.write(to: folder.url.appendingPathComponent("picture.png"))
        for name in ["news", "gate"] { #expect(mkfifo(folder.path + "/" + name, 0o600) == 0) }
        let pipe = open(folder.path + "/news", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        news = linesWritten(to: FileHandle(fileDescriptor: pipe, closeOnDealloc: true))
        let text = """
            #!/bin/sh
            HERE='\(folder.path)'
            picture() { cat "$HERE/picture.png"; }
            watch() { exec 9>"$HERE/news"; }
            tell() { echo "$*" >&9; }
            pause() { cat "$HERE/gate" >/dev/null; }
            \(script)

            """
        // Written by another process: a program that this one writes to cannot be run while a third is being started.
        await VideoFile.run("sh", ["-c", "printf %s \"$1\" >\"$2\"; chmod +x \"$2\"", "sh", text, path])
    }

    func letGo() { close(open(folder.path + "/gate", O_WRONLY | O_CLOEXEC)) }

    func lines(_ name: String) -> [String] { folder.text(name)?.split(separator: "\n").map(String.init) ?? [] }

    /// A frame of bytes that only the script reads; each number is another frame.
    func frame(_ number: Int = 0) -> VideoFrameProvider {
        var provider = VideoFrameProvider(Data("video".utf8), key: "video", at: .seconds(number))
        provider.program = path
        return provider
    }
}

extension VideoFrameProvider {
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

    var image: Image { get async throws { try CodecRegistry.standard.decode(try await data(), DecodeOptions()) } }

    func with<Value>(_ setting: WritableKeyPath<VideoFrameProvider, Value>, _ value: Value) -> VideoFrameProvider {
        var copy = self
        copy[keyPath: setting] = value
        return copy
    }
}

extension Image {
    /// The index of the colour (0 red, 1 green, 2 blue) of the middle pixel that alone exceeds 230, or `nil`.
    var mainColor: Int? {
        let pixel = self[width / 2, height / 2]
        let parts = [pixel.x, pixel.y, pixel.z]
        return parts.indices.first { index in parts.indices.allSatisfy { (parts[$0] > 230) == ($0 == index) } }
    }
}
