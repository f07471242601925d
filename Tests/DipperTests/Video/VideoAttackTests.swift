import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite(
    "Videos that name other files", .enabled(if: VideoFile.isPossible, "ffmpeg is not installed"),
    .timeLimit(.minutes(2)))
struct VideoAttackTests {
    /// Writes a file that refers to a secret video, by its path in a playlist or by its name in a script.
    private func file(_ name: String, isScript: Bool, in folder: TemporaryFolder) async throws -> URL {
        let secret = try await VideoFile.colors(as: isScript ? "secret.mp4" : "secret.ts", in: folder)
        let text =
            isScript
            ? "ffconcat version 1.0\nfile secret.mp4\n"
            : "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n\(secret.path)\n#EXT-X-ENDLIST\n"
        let file = folder.url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        return file
    }

    /// Runs ffmpeg on a file by its path, as the provider does or without the list of formats.
    private func writes(_ file: URL, anyFormat: Bool) async throws -> Int {
        var arguments = FrameCommand(.zero, nil).arguments().map {
            $0 == "file:/proc/self/fd/3" ? "file:\(file.path)" : $0
        }
        let list = try #require(arguments.firstIndex(of: "-format_whitelist"))
        if anyFormat { arguments.removeSubrange(list...list + 1) }
        let output = file.deletingLastPathComponent().appendingPathComponent("output")
        #expect(FileManager.default.createFile(atPath: output.path, contents: nil))
        await VideoFile.run("ffmpeg", arguments, output: try FileHandle(forWritingTo: output))
        return try Data(contentsOf: output).count
    }

    @Test(
        "a playlist or a script opens nothing, whatever it is called; without the list of formats it would",
        arguments: ["a.m3u8", "a.mp4"], [true, false])
    func opensNothing(_ name: String, isScript: Bool) async throws {
        let folder = TemporaryFolder()
        let file = try await file(name, isScript: isScript, in: folder)
        #expect(try await writes(file, anyFormat: true) > 0)
        #expect(try await writes(file, anyFormat: false) == 0)
        #expect(await VideoFrameProvider(file, at: .zero).error == .undecodable)
        withExtendedLifetime(folder) {}
    }

    @Test("a playlist of addresses connects to none")
    func addresses() async throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #expect(listener >= 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                #expect(bind(listener, pointer, length) == 0 && listen(listener, 8) == 0)
                #expect(getsockname(listener, pointer, &length) == 0)
            }
        }
        let target = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))/a.ts"
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n\(target)\n#EXT-X-ENDLIST\n"
        #expect(await VideoFrameProvider(Data(text.utf8), key: "playlist", at: .zero).error == .undecodable)
        #expect(accept(listener, nil, nil) == -1 && errno == EAGAIN)
    }
}
