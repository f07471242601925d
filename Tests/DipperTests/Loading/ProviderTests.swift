import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures from files, text and code", .timeLimit(.minutes(5)))
struct ProviderTests {
    private let picture = Image.sample()

    @Test("a file is read once and kept in memory only; a changed one is seen when asked for anew")
    func file() async throws {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("a picture.png")
        try picture.png.write(to: file)
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(FileProvider(file))
        #expect(try await test.cache.getImage(request).value.pixels == picture.pixels)
        try Image.sample(seed: 4).png.write(to: file)
        #expect(try await test.cache.getImage(request).response.source == .memory)
        #expect(try await test.cache.getRemoteImage(request).value.pixels == Image.sample(seed: 4).pixels)
        test.cache.removeImage(for: request)
        #expect(test.cache.image(for: request) == nil)
        #expect(test.transport.transfers.isEmpty && test.cache.data.statistics.networkRequests == 0)
        await test.cache.shutdown()
    }

    @Test("files that are not there, folders, pipes and too large ones are typed errors")
    func badFiles() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache()
        let pipe = folder.url.appendingPathComponent("pipe")
        #expect(mkfifo(pipe.path, 0o600) == 0)
        for file in [folder.url.appendingPathComponent("nothing"), folder.url, pipe, URL(fileURLWithPath: "/dev/zero")]
        {
            #expect(await test.cache.getImage(ImageRequest(FileProvider(file))).error == .unreadable, "\(file)")
        }
        #expect(await test.cache.getImage(ImageRequest(FileProvider(url("a")))).error == .unreadable)
        let file = folder.url.appendingPathComponent("large")
        try Data(count: 2_000).write(to: file)
        var provider = FileProvider(file)
        provider.maximumSize = 1_999
        #expect(await test.cache.getImage(ImageRequest(provider)).error == .tooLarge)
        await test.cache.shutdown()
    }

    @Test("data URLs and Base64; bad ones are an error")
    func text() async throws {
        let test = TestImageCache()
        let base64 = try picture.png.base64EncodedString(options: .lineLength76Characters)
        let percent = try picture.png.map { String(format: "%%%02X", $0) }.joined()
        for provider: any DataProvider in [
            Base64Provider(base64), DataURLProvider("data:image/png;base64," + base64),
            DataURLProvider("DATA:image/png;charset=x;BASE64,\(base64.replacingOccurrences(of: "+", with: "%2B"))"),
            DataURLProvider("data:," + percent),
        ] {
            #expect(try await test.cache.getImage(ImageRequest(provider)).value.pixels == picture.pixels)
        }
        for provider: any DataProvider in [
            Base64Provider("not base64!"), DataURLProvider("data:image/png;base64,###"),
            DataURLProvider("data:image/png"),
            DataURLProvider("http://host/"), DataURLProvider("data:,%4"), DataURLProvider("data:,%zz"),
        ] {
            #expect(await test.cache.getImage(ImageRequest(provider)).error == .invalidData)
        }
        await test.cache.shutdown()
    }

    @Test("bytes in memory, and code of the caller's: asked once for all, in queues, with retries")
    func custom() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let file = try picture.png
        #expect(
            try await test.cache.getImage(ImageRequest(MemoryProvider(file, key: "mine"))).value.pixels
                == picture.pixels)
        let calls = Box(0)
        let provider = CustomProvider(key: "made") {
            var number = 0
            calls.update {
                $0 += 1
                number = $0
            }
            if number == 1 { throw DipperError.connectionLost }
            return file
        }
        let retries = Box(0)
        let tasks = [test.cache.getImage(ImageRequest(provider)), test.cache.slowGetImage(ImageRequest(provider))]
        tasks[0].onRetry { retries.update { $0 += 1 } }
        #expect(await settle { test.clock.sleeperCount > 0 })
        while test.clock.advanceToNextSleeper() {}
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        #expect(await settle { retries.value == 1 })
        #expect(calls.value == 2)
        // What is not local is kept on disk.
        await test.cache.synchronize()
        #expect(test.cache.data.hasData(for: "made") && !test.cache.data.hasData(for: "mine"))
        #expect(test.cache.data.diskCount == 1)
        struct Odd: Error {}
        let failing = CustomProvider(key: "odd") { throw Odd() }
        #expect(await test.cache.getImage(ImageRequest(failing)).error == .unreadable)
        #expect(await test.cache.getImage(ImageRequest(CustomProvider(key: "") { file })).error == .emptyKey)
        await test.cache.shutdown()
    }

    @Test("a provider whose last caller has gone is cancelled")
    func cancelled() async throws {
        let test = TestImageCache()
        let wasCancelled = Box(false)
        let started = Box(false)
        let provider = CustomProvider(key: "slow") {
            started.update { $0 = true }
            while !Task.isCancelled { await Task.yield() }
            wasCancelled.update { $0 = true }
            throw CancellationError()
        }
        let task = test.cache.getImage(ImageRequest(provider))
        #expect(await settle { started.value })
        task.cancel()
        #expect(await task.error == .cancelled)
        #expect(await settle { wasCancelled.value })
        await test.cache.shutdown()
    }

    @Test("named pictures are found in the program's folders, with or without ending, and nowhere else")
    func named() async throws {
        let folder = TemporaryFolder(), other = TemporaryFolder()
        let icons = folder.url.appendingPathComponent("icons")
        try FileManager.default.createDirectory(at: icons, withIntermediateDirectories: true)
        try picture.png.write(to: icons.appendingPathComponent("home.png"))
        try Image.sample(seed: 5).png.write(to: other.url.appendingPathComponent("second"))
        try picture.png.write(to: folder.url.appendingPathComponent("secret.png"))
        let test = TestImageCache { $0.resourceFolders = [icons, other.url] }
        #expect(test.cache.imageNamed("home")?.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "home").response.source == .memory)
        #expect(try await test.cache.getImage(named: "home.png").value.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "second").value.pixels == Image.sample(seed: 5).pixels)
        for name in ["", "nothing", "../secret", "../secret.png", "/etc/hostname", "."] {
            #expect(test.cache.imageNamed(name) == nil, "\(name)")
            #expect(await test.cache.getImage(named: name).error == .unreadable, "\(name)")
        }
        await test.cache.shutdown()
    }
}
