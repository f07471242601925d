import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Calls that look at no file", .timeLimit(.minutes(5)))
struct QuietCallTests {
    @Test("a named picture is looked for when its bytes are asked for, not where the call is made")
    func named() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        test.cache.data.fastQueue.isSuspended = true
        let task = test.cache.getImage(named: "late")
        let picture = Image.sample()
        try picture.png.write(to: folder.url.appendingPathComponent("late.png"))
        test.cache.data.fastQueue.isSuspended = false
        #expect(try await task.value.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("a provider of a picture of a video is made without a look at the video")
    func video() async throws {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("video.mp4")
        let before = VideoFrameProvider(file, at: .zero)
        let unknown = await VideoFrameProvider.key(of: file)
        try Data(repeating: 1, count: 100).write(to: file)
        #expect(VideoFrameProvider(file, at: .zero).cacheKey == before.cacheKey)
        #expect(await VideoFrameProvider.key(of: file) != unknown)
    }
}
