import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Pictures from files, text and code", .timeLimit(.minutes(2)))
struct ImageProviderTests {
    private let picture = Image.sample()
    private let newer = Image.sample(seed: 4)
    private let test = TestImageCache(folder: TemporaryFolder())

    @Test("a file is read once and kept in memory only; a changed one is seen when asked for anew")
    func file() async throws {
        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("a picture.png")
        try picture.png.write(to: file)
        let request = ImageRequest(FileProvider(file))
        #expect(try await test.pixels(request) == picture.pixels)
        try newer.png.write(to: file)
        #expect(try await test.source(request) == .memory)
        #expect(try await test.cache.getRemoteImage(request).value.pixels == newer.pixels)
        test.cache.removeVariant(for: request)
        #expect(test.cache.image(for: request) == nil)
        await test.cache.idle()
        #expect(test.cache.data.diskCount == 0)
        #expect(test.transport.transfers.isEmpty && test.cache.data.statistics.networkRequests == 0)
    }

    @Test("files that are not there, folders, pipes and too large ones are typed errors")
    func badFiles() async throws {
        let folder = TemporaryFolder()
        let pipe = folder.url.appendingPathComponent("pipe")
        #expect(mkfifo(pipe.path, 0o600) == 0)
        let nothing = folder.url.appendingPathComponent("nothing")
        for file in [nothing, folder.url, pipe, URL(fileURLWithPath: "/dev/zero"), url("a")] {
            #expect(await test.error(ImageRequest(FileProvider(file))) == .unreadable, "\(file)")
        }
        let file = folder.url.appendingPathComponent("large")
        try Data(count: 2_000).write(to: file)
        var provider = FileProvider(file)
        provider.maximumSize = 1_999
        #expect(await test.error(ImageRequest(provider)) == .tooLarge)
    }

    @Test("data URLs and Base64; bad ones are an error")
    func text() async throws {
        let base64 = try picture.png.base64EncodedString(options: .lineLength76Characters)
        let percent = try picture.png.map { String(format: "%%%02X", $0) }.joined()
        for provider: any DataProvider in [
            Base64Provider(base64), DataURLProvider("data:image/png;base64," + base64),
            DataURLProvider("DATA:image/png;charset=x;BASE64,\(base64.replacingOccurrences(of: "+", with: "%2B"))"),
            DataURLProvider("data:," + percent),
        ] {
            #expect(try await test.pixels(ImageRequest(provider)) == picture.pixels)
        }
        for provider: any DataProvider in [
            Base64Provider("not base64!"), DataURLProvider("data:image/png;base64,###"),
            DataURLProvider("data:image/png"), DataURLProvider("http://host/"), DataURLProvider("data:,%4"),
            DataURLProvider("data:,%zz"),
        ] {
            #expect(await test.error(ImageRequest(provider)) == .invalidData)
        }
    }

    @Test("bytes in memory, and code of the caller's: asked once for all, in queues, with retries")
    func custom() async throws {
        let file = try picture.png
        let mine = ImageRequest(MemoryProvider(file, key: "mine"))
        #expect(try await test.pixels(mine) == picture.pixels)
        let calls = Box(0), retries = Box(0)
        let provider = CustomProvider(key: "made") {
            let isFirst = calls.update { calls in
                defer { calls += 1 }
                return calls == 0
            }
            if isFirst { throw DipperError.connectionLost }
            return file
        }
        let tasks = [test.cache.getImage(ImageRequest(provider)), test.cache.slowGetImage(ImageRequest(provider))]
        tasks[0].onRetry { retries.update { $0 += 1 } }
        try await test.clock.waitForSleepers(1)
        while test.clock.advanceToNextSleeper() {}
        for task in tasks { #expect(try await task.value.pixels == picture.pixels) }
        await test.cache.idle()
        #expect(retries.value == 1 && calls.value == 2)
        // What is not local is kept on disk.
        #expect(test.cache.data.hasData(for: "made") && !test.cache.data.hasData(for: "mine"))
        #expect(test.cache.data.diskCount == 1)
        struct Odd: Error {}
        let failing = CustomProvider(key: "odd") { throw Odd() }
        #expect(await test.error(ImageRequest(failing)) == .unreadable)
        #expect(await test.error(ImageRequest(CustomProvider(key: "") { file })) == .emptyKey)
    }

    @Test("named pictures are found in the program's folders, with or without ending, and nowhere else")
    func named() async throws {
        let folder = TemporaryFolder(), other = TemporaryFolder()
        let icons = folder.url.appendingPathComponent("icons")
        try FileManager.default.createDirectory(at: icons, withIntermediateDirectories: true)
        try picture.png.write(to: icons.appendingPathComponent("home.png"))
        try newer.png.write(to: other.url.appendingPathComponent("second"))
        try picture.png.write(to: folder.url.appendingPathComponent("secret.png"))
        let test = TestImageCache { $0.resourceFolders = [icons, other.url] }
        #expect(test.cache.image(named: "home")?.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "home").response.source == .memory)
        #expect(try await test.cache.getImage(named: "home.png").value.pixels == picture.pixels)
        #expect(try await test.cache.getImage(named: "second").value.pixels == newer.pixels)
        for name in ["", "nothing", "../secret", "../secret.png", "/etc/hostname", "."] {
            #expect(test.cache.image(named: name) == nil, "\(name)")
            #expect(await test.cache.getImage(named: name).error == .unreadable, "\(name)")
        }
    }

    @Test("a named picture is looked for when its bytes are asked for, not where the call is made")
    func namedLater() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache { $0.resourceFolders = [folder.url] }
        test.cache.data.fastQueue.isSuspended = true
        let task = test.cache.getImage(named: "late")
        try picture.png.write(to: folder.url.appendingPathComponent("late.png"))
        test.cache.data.fastQueue.isSuspended = false
        #expect(try await task.value.pixels == picture.pixels)
    }

    @Test("a named picture comes from its file after a restart, though the file was asked for anew before")
    func namedAnew() async throws {
        let icons = TemporaryFolder(), folder = TemporaryFolder()
        let file = icons.url.appendingPathComponent("home.png")
        for image in [picture, newer] {
            try image.png.write(to: file)
            let test = TestImageCache(folder: folder) { $0.resourceFolders = [icons.url] }
            #expect(test.cache.image(named: "home")?.pixels == image.pixels)
            _ = try await test.cache.getRemoteImage(ImageRequest(FileProvider(file))).value
            await test.cache.shutdown()
        }
    }
}
