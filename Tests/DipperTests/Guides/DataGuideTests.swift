import TestSupport
import Testing

@Suite("The code of DipperData's guides", .timeLimit(.minutes(2)))
struct DataGuideTests {
    private let test = TestCache(folder: TemporaryFolder())
    private let a = url("a"), b = url("b")
    private let bytes = Data("bytes".utf8)

    // MARK: Getting started

    @Test("a first call, and one with each hook; prefetches that become urgent and are moved back")
    func calls() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place(bytes, at: "file")
        #expect(try await DataGuides.oneCall(folder.url.appendingPathComponent("cache"), file) == bytes)
        let (banner, shown) = (Stage(), Box<[Data]>([]))
        test.transport.script(a, [.body(bytes)])
        DataGuides.calls(test.cache, a, banner) { data in shown.update { $0.append(data) } }
        await test.cache.idle()
        #expect(shown.value == [bytes, bytes] && banner.texts.isEmpty)

        let bar = Stage()
        DataGuides.progress(test.cache, b, bar)
        let transfer = try await test.transport.nextTransfer()
        for (received, expected) in [(2, nil), (3, 4)] {
            transfer.send(progress: received, of: expected)
            try await test.cache.waitForHooks()
            test.clock.advance(by: .seconds(1))
        }
        #expect(bar.texts == ["2 bytes", "75 %"])
        transfer.finish(with: bytes)
    }

    @Test("errors are told apart, and a cancelled download ends its program's task")
    func errors() async throws {
        let printed = Box<[String]>([])
        @Sendable func ask(_ url: URL) async {
            await DataGuides.errors(test.cache, url) { data in
                printed.update { $0.append("\(data.count)") }
            } _: { items in
                printed.update { $0.append(items.map { "\($0)" }.joined(separator: " ")) }
            }
        }
        test.transport.script(a, [.body(bytes)])
        test.transport.script(b, [.status(404)])
        await ask(a)
        await ask(b)
        let waiting = Task { await ask(url("c")) }
        _ = try await test.transport.nextTransfer()
        waiting.cancel()
        await waiting.value
        #expect(printed.value.count == 3 && printed.value.first == "5" && printed.value.last == "stopped")
        #expect(printed.value[1].hasPrefix("status 404") && printed.value[1].hasSuffix(" 404"))

        let folder = TemporaryFolder()
        let file = folder.url.appendingPathComponent("file")
        #expect(try await DataGuides.interrupted(test.cache, a, file).get().data == bytes)
        #expect(folder.text("file") == "bytes")
        signal(SIGINT, SIG_DFL)
    }

    @Test("values of JSON, also with options, and of property lists")
    func values() async throws {
        let plist = try PropertyListSerialization.data(
            fromPropertyList: [String: String](), format: .binary, options: 0)
        for path in ["feed", "next"] { test.transport.script(url(path), [.body(Data(#"{"items": [{}]}"#.utf8))]) }
        test.transport.script(url("menu"), [.body(plist)])
        let shown = Box(0)
        try await DataGuides.values(test.cache, url("feed"), url("next"), url("menu")) { _ in shown.update { $0 += 1 } }
        #expect(shown.value == 3)
        #expect(try await DataGuides.stored(test.cache))
        test.transport.script(a, [.body(Data(#"{"made_at": "2026-11-01T08:00:00Z"}"#.utf8))])
        #expect(try await DataGuides.options(test.cache, a) == Date(timeIntervalSince1970: 1_793_520_000))
    }

    @Test("requests carry their fields, tokens and mirrors")
    func requests() async throws {
        let request = DataGuides.request(a, "secret")
        #expect(request.headers["Authorization"] == "Bearer secret" && request.timeout == .seconds(20))
        #expect(DataGuides.cookie(a, "7").headers["Cookie"] == "session=7")
        test.transport.script(b, [.body(bytes)])
        let task = test.cache.getData(DataGuides.hooks(a, Session(), b))
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Authorization"] == "Bearer token")
        transfer.finish(with: Data())
        #expect(try await task.value(within: .seconds(30)) == bytes, "an empty body is rejected, and the mirror asked")
    }

    @Test("the example of a test passes, and what is written and read can be awaited")
    func tests() async throws {
        #expect(try await DataGuides.testing(a) == Data("here".utf8))
        test.transport.script(a, [.body(bytes)])
        _ = try await test.cache.getData(a).value
        await test.cache.idle()
        #expect(try await DataGuides.awaited(test.cache, CacheKey(a)) != nil && test.cache.diskCount == 0)
    }

    // MARK: Being offline

    @Test("downloads, and fetches that stay off a constrained network")
    func offline() async throws {
        let folder = TemporaryFolder()
        test.transport.script(a, [.body(bytes)])
        try await DataGuides.downloaded(test.cache, a, folder.url.appendingPathComponent("film"))
        #expect(folder.text("film") == "bytes")
        var configuration = DataCache.Configuration()
        #expect(DataGuides.permitted(&configuration, a).allowsConstrainedNetwork == false)
        #expect(!configuration.slowQueue.allowsConstrainedNetwork)
        defer { NetlinkMonitor.shared.setConditions(NetworkConditions()) }
        #expect(DataGuides.constrained(a, b).lowDataURL == b && NetlinkMonitor.shared.conditions.isConstrained)
    }

    @Test("a refused connection and a lack of a network have errors of their own")
    func compared() async throws {
        let banner = Stage()
        test.transport.script(a, [.failure(.connectionFailed)])
        DataGuides.compared(test.cache, a, banner)
        try await test.cache.waitForParked()
        test.network.isUp = false
        DataGuides.compared(test.cache, b, banner)
        try await test.cache.waitForParked(2)
        #expect(banner.texts == ["Refused", "No network"])
        test.cache.cancelAll()
        await test.cache.idle()
        #expect(banner.texts.count == 2, "a cancelled call says nothing")
    }

    // MARK: HTTP, security

    @Test("each call asks the server; a response says where its bytes came from")
    func responses() async throws {
        let test = TestCache { DataGuides.asking(&$0) }
        test.transport.script(
            a,
            [
                .response(TransferResponse(headers: ["ETag": "\"1\"", "Content-Type": "text/plain"], body: bytes)),
                .status(304, ["ETag": "\"1\""]),
            ])
        let first = try await DataGuides.response(test.cache, a)
        #expect(first == (.network, 200, a, "text/plain"))
        test.date.advance(by: 1)
        #expect(try await DataGuides.response(test.cache, a) == (.revalidated, 200, a, "text/plain"))
        let folder = TemporaryFolder()
        let own = try await DataGuides.response(test.cache, folder.place(bytes, at: "file"))
        #expect(own.0 == .provider && own.1 == 200 && own.2 == nil)
    }

    @Test("with one line a cache keeps no answer for one client")
    func shared() async throws {
        let test = TestCache { DataGuides.shared(&$0) }
        test.transport.script(a, [.status(200, ["Cache-Control": "private, max-age=60"])])
        for _ in 0..<2 { #expect(try await test.cache.getData(a).response.source == .network) }
    }

    @Test("a redirect that sets a cookie is followed with the cookie")
    func cookies() async throws {
        let fields: HTTPHeaders = ["Location": "/b", "Set-Cookie": "visit=1; Path=/"]
        test.transport.script(a, [.status(302, fields)])
        test.transport.script(b, [.body(bytes)])
        #expect(try await DataGuides.cookies(test.cache, a) == bytes)
        #expect(test.transport.transfers(of: b).first?.request.headers["Cookie"] == "visit=1")
    }

    @Test("bytes that a server has encrypted are decrypted, and settings are taken")
    func settings() async throws {
        let key = [UInt8](repeating: 7, count: 32)
        test.transport.script(a, [.body(try AESCodec(key: key, identifier: "").encode(bytes))])
        #expect(try await DataGuides.decrypted(test.cache, a, key) == bytes)
        var configuration = DataCache.Configuration()
        DataGuides.settings(&configuration, key, Loop())
        DataGuides.signed(&configuration)
        let signed = DataRequest(url("a?token=1&session-id=2&b=3")).with(\.keyRule, configuration.keyRule)
        #expect(signed.cacheKey == CacheKey(url("a?b=3")))
        let cache = TestCache()
        cache.transport.script(a, [.status(404)])
        #expect(await cache.cache.getData(DataGuides.remembered(&configuration, cache.cache, a)).error?.status == 404)
        #expect(configuration.recordCodec?.identifier == "aes-gcm, key of 2026")
        #expect(configuration.network.maximumBodySize == 20 << 20)
        DataGuides.trust(&configuration, Data("house".utf8), Data(), Data(), "secret")
        let answer = configuration.answerTLSChallenge
        let nas = try #require(URL(string: "https://nas.local"))
        #expect(try await answer?(nas)?.authorities == Data("house".utf8))
        #expect(try await answer?(a) == nil && configuration.proxyCredentials != nil)
    }

    // MARK: Dipper

    @Test("a first picture, what is read and removed off the caller's thread, and crops by a ratio")
    func pictures() async throws {
        let (folder, picture) = (TemporaryFolder(), Image.sample(90, 60))
        let file = try folder.place(picture.png, at: "picture.png")
        let cache = folder.url.appendingPathComponent("cache")
        #expect(try await GettingStartedGuide.onePicture(cache, file).pixels == picture.pixels)
        let test = TestImageCache()
        test.transport.script(a, [try .image(picture)])
        _ = try await test.cache.getImage(a).value
        #expect(try await GettingStartedGuide.awaited(test.cache, a) && !test.cache.hasImage(for: a))
        let sizes = try ProcessorsGuide.ratios().map { try $0.process(picture, ProcessingContext()).size }
        #expect(sizes.map(\.width) == [90, 48])
        let request = SGImageCacheGuide.request(a, "ada", "secret")
        #expect(request.headers["Authorization"] == "Bearer secret" && request.key == CacheKey("ada \(a)"))
    }

    @Test("a frame of a video", .enabled(if: VideoFile.isPossible, "ffmpeg is not installed"))
    func video() async throws {
        let folder = TemporaryFolder()
        let test = TestImageCache()
        let video = try await VideoFile.colors(
            as: "video.mp4", in: folder, ["-vf", "tpad=stop_mode=clone:stop_duration=3"])
        #expect(try await DecodingGuide.video(test.cache, video).width > 0)
        #expect(try await DecodingGuide.remoteVideo(test.cache, video).width > 0)
    }
}
