import Logging
import TestSupport
import Testing

@Suite("The first lines that people write", .timeLimit(.minutes(2)))
struct FirstLinesTests {
    private let test = TestCache()
    private let picture = Image.sample(3, 2)

    @Test("header fields come from a dictionary, and are gone through like a list")
    func headerFields() {
        let session = ["X-Token": "1", "Accept": "image/webp"]
        let headers = HTTPHeaders(session)
        #expect(headers.map(\.name) == ["Accept", "X-Token"] && headers.count == 2)
        #expect(headers.contains { $0.value == "1" } && headers.first?.value == "image/webp")
        #expect(headers == ["Accept": "image/webp", "X-Token": "1"] && HTTPHeaders([:]).isEmpty)
    }

    @Test("the options of a request take a dictionary, URLs and whole numbers")
    func naturalOptions() async throws {
        let fields = ["X-Token": "1", "Accept": "image/webp"]
        var data = DataRequest(url("gone"))
        data.headers = fields
        data.alternatives = [url("b"), url("c")]
        data.priority = 1
        var image = ImageRequest(url("gone"))
        image.headers = fields
        image.alternatives = [url("b"), url("c")]
        image.priority = 1
        let chained = ImageRequest(url("gone")).with(\.headers, fields).with(\.alternatives, [url("b")])
        let chainedData = DataRequest(url("gone")).with(\.headers, fields).with(\.priority, 1)
        for request in [data, image.data, chained.data, chainedData] {
            let headers: HTTPHeaders = request.headers
            #expect(headers == ["Accept": "image/webp", "X-Token": "1"])
        }
        // A literal keeps its order, and may have a name twice.
        let literal = ["X": "1", "Accept": "a", "X": "2"] as HTTPHeaders
        data.headers = ["X": "1", "Accept": "a", "X": "2"]
        let same = chained.with(\.headers, ["X": "1", "Accept": "a", "X": "2"]).data.headers as HTTPHeaders
        #expect(data.headers == literal && same == literal)
        #expect(chainedData.with(\.headers, ["X": "1", "Accept": "a", "X": "2"]).headers == literal)
        data.headers = fields
        for request in [data, image.data] {
            let urls = request.alternatives.compactMap(\.url)
            #expect(urls == [url("b"), url("c")] && request.priority == Priority(1))
        }
        data.headers["X-Token"] = nil
        #expect(data.headers == ["Accept": "image/webp"] && data.headers.count == 1)
        // A change in place keeps providers and repeated fields; by a URL or as a dictionary it does not compile.
        let bundled = DataRequest.Source.provider(MemoryProvider(Data(), key: "bundled"))
        var changed = image.with(\.alternatives, [bundled]).with(\.headers, literal)
        changed.alternatives.append(.url(url("b")))
        changed.alternatives += [.url(url("c"))]
        changed.headers["Accept"] = "b"
        #expect(changed.alternatives.map(\.url) == [nil, url("b"), url("c")])
        #expect(changed.headers == ["X": "1", "Accept": "b", "X": "2"] as HTTPHeaders)
        for name in ["gone", "b"] { test.transport.script(url(name), [.status(404)]) }
        test.transport.script(url("c"), [.body(Data("here".utf8))])
        let task = test.cache.getData(data)
        task.priority = 0
        #expect(try await task.value == Data("here".utf8) && task.priority == 0)
    }

    @Test("URLs of files, data URLs and text are sources like any other")
    func sources() async throws {
        let test = TestImageCache()
        let folder = TemporaryFolder()
        let file = try folder.place(picture.png, at: "a picture.png")
        let text = try "data:image/png;base64,\(picture.png.base64EncodedString())"
        let inline = try #require(URL(string: text))
        try test.script(#require(URL(string: "https://example.org/a.png")), picture)
        for url in [file, inline] { #expect(try await test.cache.getImage(url).value.size == picture.size) }
        for text in [text, file.absoluteString, "https://example.org/a.png"] {
            #expect(try await test.cache.getImage(text).value.size == picture.size)
        }
        #expect(try await test.cache.data.getData(file).value == picture.png)
        #expect(test.cache.readImage(for: file) != nil && test.cache.data.readData(for: inline) != nil)
        test.cache.removeImage(for: file)
        #expect(test.cache.readImage(for: file) == nil)
        #expect(await test.cache.getImage("no URL").error == .invalidURL)
    }

    @Test("what is removed, and what is looked for, may be a URL, its text or a type of the program's own")
    func convertible() async throws {
        struct Cover: ImageRequestConvertible {
            let imageRequest: ImageRequest
        }
        struct Feed: DataRequestConvertible {
            let dataRequest: DataRequest
        }
        let test = TestImageCache(folder: TemporaryFolder())
        let cache = test.cache
        let text = url("a").absoluteString
        let bytes = Data(repeating: 7, count: 20_000)
        let german = DataRequest(url("a")).with(\.headers, ["Accept-Language": "de"])
        for remove in [{ cache.data.removeData(for: text) }, { cache.data.removeData(for: url("a")) }] {
            for request in [DataRequest(url("a")), german] { try cache.data.addData(bytes, for: request) }
            remove()
            #expect(!cache.data.hasData(for: url("a")) && !cache.data.hasData(for: german))
        }
        for request in [DataRequest(url("a")), german] { try cache.data.addData(bytes, for: request) }
        cache.data.removeData(for: Feed(dataRequest: german))
        #expect(cache.data.hasData(for: text) && !cache.data.hasData(for: german))
        try cache.addImage(picture, bytes: bytes, for: url("b"))
        try cache.addImage(picture, bytes: bytes, for: "cover of album 17")
        await cache.synchronize()
        for _ in 0..<2 {
            #expect(cache.hasProcessedImage(for: url("b")) && cache.hasProcessedImage(for: url("b").absoluteString))
            #expect(cache.hasProcessedImage(for: "cover of album 17") && !cache.hasProcessedImage(for: "album"))
            #expect(!cache.hasProcessedImage(for: Cover(imageRequest: ImageRequest(url("c")))))
            cache.clearMemory()
        }
        let file = try #require(cache.file(for: url("b")))
        #expect(try Data(contentsOf: file) == bytes && cache.file(for: url("c")) == nil)
        #expect(file == cache.file(for: Cover(imageRequest: ImageRequest(url("b")))))
        #expect(try Data(contentsOf: #require(cache.file(for: "cover of album 17"))) == bytes)
    }

    @Test("text that is no URL removes nothing of what the program has added under a key")
    func noURL() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let cache = test.cache
        try cache.data.addData(Data("settings".utf8), for: "settings")
        try cache.addImage(picture, for: "cover")
        await cache.synchronize()
        for text in ["", " "] {
            cache.data.removeData(for: text as String)
            cache.removeImage(for: text as String)
        }
        cache.clearMemory()
        cache.data.clearMemory()
        #expect(cache.data.readData(for: "settings") == Data("settings".utf8))
        #expect(cache.readImage(for: "cover")?.size == picture.size)
    }

    @Test("warnings and errors are logged where the program's logs go, and nothing else, unless the program says so")
    func warnings() {
        for logger in [DataCache.Configuration().logger, ImageCache.Configuration().data.logger] {
            #expect(logger.logLevel == .warning && !(logger.handler is SwiftLogNoOpLogHandler))
        }
    }

    @Test("a file is an alternative, and not read where URLs come from strangers")
    func files() async throws {
        let folder = TemporaryFolder()
        let file = try folder.place("here", at: "a")
        let strict = TestCache { $0.readsFileURLs = false }
        for cache in [strict, test] { cache.transport.script(url("gone"), [.status(404)]) }
        let misled = DataRequest(url("gone")).with(\.alternatives, [file])
        for request in [file.dataRequest, file.absoluteString.dataRequest, misled] {
            #expect(await strict.cache.getData(request).error == .unsupportedScheme)
        }
        #expect(try await strict.cache.getData(DataRequest(FileProvider(file))).value == Data("here".utf8))
        strict.network.setConditions(NetworkConditions(isConstrained: true))
        let small = DataRequest(url("gone")).with(\.lowDataURL, file)
        #expect(await strict.cache.getData(small).error == .unsupportedScheme)
        #expect(try await test.cache.getData(misled).value == Data("here".utf8))
    }

    @MainActor final class Controller: @MainActor ImageDisplay {
        var image: Image?
        var results: [Result<Image, DipperError>] = []
        var progress = 0
        var content = DisplayContent.nothing
        let pixelSize: PixelSize?

        init(_ pixelSize: PixelSize? = nil) { self.pixelSize = pixelSize }

        func show(_ content: DisplayContent, _ transition: ImageTransition) { self.content = content }

        /// Returns when its own closures have done what is waited for.
        func wait(_ isDone: (Controller) -> Bool) async throws {
            while !isDone(self) { try await Task.sleep(for: .milliseconds(1)) }
        }

        func load(_ url: URL, _ cache: ImageCache) async {
            cache.getImage(url) { image in self.image = image }
            cache.getImage(url).onEnd { result in self.results.append(result.map(\.image)) }
            await withCheckedContinuation { continuation in
                cache.getImage(url).onProgress { [weak self] _ in self?.progress += 1 }
                    .onEnd { _ in continuation.resume() }
            }
        }
    }

    @MainActor
    @Test("closures of the main actor use what belongs to it, and a display of the main actor is one")
    func mainActor() async throws {
        let test = TestImageCache()
        try test.script(url("a"), picture)
        let controller = Controller()
        await controller.load(url("a"), test.cache)
        try await controller.wait { $0.image != nil && !$0.results.isEmpty }
        #expect(controller.image?.size == picture.size && controller.results.count == 1)
        test.transport.script(url("gone"), [.status(404)])
        await controller.load(url("gone"), test.cache)
        try await controller.wait { $0.results.count == 2 }
        #expect(controller.results.last?.error == .status(404))
        let binding = ImageBinding(controller, cache: test.cache)
        let optional: URL? = url("a")
        #expect(try await binding.setImage(optional)?.value.size == picture.size)
        #expect(controller.content.image?.size == picture.size)
        #expect(binding.setImage(nil) == nil)
    }

    @Test("the closure of a call gets the result alone, and its end is told by a hook, with the result or the error")
    func closureOfCall() async throws {
        let test = TestImageCache()
        try test.script(url("a"), picture)
        test.transport.script(url("gone"), [.status(404)])
        let told = Box<[String]>([])
        for target in [url("a"), url("gone")] {
            let task = test.cache.getImage(target) { result in told.update { $0.append("\(type(of: result))") } }
            task.onEnd { result in told.update { $0.append("end \(result.text)") } }
            _ = await task.ending
        }
        #expect(told.value == ["Image", "end \(picture.size)", "end status 404"])
    }

    /// With errors of a named type, Swift 6.3 crashes at both.
    @Test("natural lines that catch the errors of calls compile; a cancelled wait throws the library's own error")
    func caught() async throws {
        test.transport.script(url("a"), [.status(404)])
        let cache = test.cache
        func optional() async throws -> Int {
            let data: Data?
            do {
                data = try await cache.getData(url("a")).value
            } catch let error as DipperError where error.status == 404 {
                data = nil
            }
            return data?.count ?? -1
        }
        func inLoop() async throws -> Int {
            for _ in 0..<2 {
                do {
                    return try await cache.getData(url("a")).response.data.count
                } catch let error as DipperError where error.status == 404 {
                    continue
                }
            }
            return -2
        }
        #expect(try await optional() == -1)
        #expect(try await inLoop() == -2)
        let waiting = Task { try await cache.getData(url("silent")).value }
        waiting.cancel()
        await #expect(throws: DipperError.cancelled) { try await waiting.value }
    }

    @Test("a server can be told which formats the program decodes")
    func accept() async throws {
        var codecs = CodecRegistry()
        #expect(codecs.accept == "*/*;q=0.5")
        for decoder in [JPEGDecoder(), PNGDecoder(), CountingDecoder()] as [any ImageDecoder] {
            codecs.register(decoder)
        }
        #expect(codecs.accept == "image/jpeg,image/png,*/*;q=0.5")
        let formats = CodecRegistry.standard.accept.split(separator: ",").dropLast()
        #expect(formats.count == CodecRegistry.standard.readable.subtracting([.bmp, .ico]).count)
        let test = TestImageCache { configuration in
            configuration.data.completeRequest = { $0.headers["Accept"] = CodecRegistry.standard.accept }
        }
        try test.script(url("a"), picture)
        _ = try await test.cache.getImage(url("a")).value
        let sent = try #require(test.transport.transfers(of: url("a")).first).request
        #expect(sent.headers["Accept"] == CodecRegistry.standard.accept)
        #expect(test.cache.hasImage(for: url("a")))
    }

    @MainActor
    @Test("a binding says in the log, once, that nobody serves the main queue")
    func unservedMainQueue() throws {
        let warnings = Box<[String]>([])
        let test = TestImageCache {
            $0.data.clock = ContinuousClock()
            $0.data.logger = .recording { line in if line.contains("main queue") { warnings.update { $0.append(line) } }
            }
        }
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: test.cache)
        for name in ["a", "b"] { binding.setImage(url(name)) }
        let done = DispatchSemaphore(value: 0)
        Task.detached {
            defer { done.signal() }
            try await warnings.wait { !$0.isEmpty }
        }
        // The main thread does other work than the main queue's, as one does that runs a loop of its own.
        #expect(done.wait(timeout: .now() + 60) == .success)
        #expect(warnings.value.count == 1 && warnings.value.first?.contains("a second") == true)
    }

    @Test("a binding says in the log, once, that nobody serves its own queue")
    func unservedCustomQueue() async throws {
        let warnings = Box<[String]>([])
        let test = TestImageCache {
            $0.data.clock = ContinuousClock()
            $0.data.logger = .recording { line in
                if line.contains("nothing has run") { warnings.update { $0.append(line) } }
            }
        }
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: test.cache, queue: .custom { _ in })
        for name in ["a", "b"] { binding.setImage(url(name)) }
        try await warnings.wait { !$0.isEmpty }
        #expect(warnings.value.count == 1 && warnings.value.first?.contains("a custom callback queue") == true)
        let served = ImageBinding(display, cache: test.cache, queue: .custom { $0() })
        served.setImage(url("c"))
        #expect(warnings.value.count == 1)
    }

    @Test("a binding of the main queue says in the log, once, that it is used outside of it")
    func otherThread() async throws {
        let warnings = Box<[String]>([])
        let test = TestImageCache {
            $0.data.logger = .recording { line in
                if line.contains("outside of it") { warnings.update { $0.append(line) } }
            }
        }
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: test.cache)
        await Task.detached { for name in ["a", "b"] { binding.setImage(url(name)) } }.value
        #expect(warnings.value.count == 1)
        await MainActor.run { _ = binding.setImage(url("c")) }
        #expect(warnings.value.count == 1)
    }

    actor Counter {
        var count = 0
        func load(_ url: URL, _ cache: DataCache) async throws {
            _ = try await cache.getData(url) { data in self.count += data.count }.value
            while count == 0 { await Task.yield() }
        }
    }

    @Test("a closure of another actor runs on it")
    func otherActor() async throws {
        test.transport.script(url("a"), [.body(Data("abc".utf8))])
        let counter = Counter()
        try await counter.load(url("a"), test.cache)
        #expect(await counter.count == 3)
    }

    private struct Own: Error {}

    @Test("what a program's closure throws is the error of the call, and names the processor or the key")
    func errors() async throws {
        let test = TestImageCache()
        try test.script(url("a"), picture)
        let plain = ImageRequest(url("a")).processed(by: .custom("mine") { _, _ in throw Own() })
        let failed = try #require(await test.cache.getImage(plain).error)
        #expect(failed == .processingFailed && failed.detail?.hasPrefix("custom(mine)") == true)
        #expect(failed.localizedDescription == "\(failed)")
        let modified = DataRequest(url("b")).with(\.modifier, RequestModifier { _ in throw Own() })
        #expect(await test.cache.data.getData(modified).error == .rejected)
        let missing = DataRequest(url("c")).with(\.cachePolicy, .cacheOnly)
        let absent = try #require(await test.cache.data.getData(missing).error)
        #expect(absent.isNotCached && absent.detail == "\(missing.cacheKey)")
    }

    @Test("a key is text with values in it, as well as plain text")
    func keys() async throws {
        let user = "ada"
        test.transport.script(url("a"), [.body(Data("here".utf8))])
        _ = try await test.cache.getData(DataRequest(url("a")).with(\.key, "inbox of \(user)")).value
        #expect(await test.cache.data(for: CacheKey("inbox of ada")) == Data("here".utf8))
        let keys: [CacheKey] = ["a\(7)\n#", "a7\(user.isEmpty ? user : "\n#")", "a7\n#"]
        #expect(Set(keys) == [CacheKey("a7\n#")])
    }

    @Test("a modifier turns any URL into one that can be fetched")
    func anyScheme() async throws {
        test.transport.script(url("album/12"), [.body(Data("here".utf8))])
        let modifier = RequestModifier.changing(identity: "photos") {
            if $0.url.scheme == "photos" { $0.url = url("album/12") }
        }
        let request = try DataRequest(#require(URL(string: "photos://album/12"))).with(\.modifier, modifier)
        #expect(try await test.cache.getData(request).value == Data("here".utf8))
        let other = try DataRequest(#require(URL(string: "other://album/12"))).with(\.modifier, modifier)
        #expect(await test.cache.getData(other).error == .unsupportedScheme)
    }

    @Test("requests are equal if they ask for the same in the same way")
    func equality() {
        let plain = ImageRequest(url("a"))
        let changes: [(ImageRequest) -> ImageRequest] = [
            { $0.with(\.priority, .high) }, { $0.with(\.headers, ["A": "b"]) }, { $0.with(\.timeout, .seconds(3)) },
            { $0.with(\.scale, 2) }, { $0.processed(by: .circle) }, { $0.with(\.cachePolicy, .bypass) },
            { $0.with(\.key, "k") }, { _ in ImageRequest(url("b")) },
        ]
        for change in changes {
            #expect(change(plain) == change(ImageRequest(url("a"))) && change(plain) != plain)
        }
        let unlike: [ImageRequest] = [
            plain.with(\.retryPolicy, .never), plain.with(\.callbackQueue, .main), plain.modified { $0 },
            plain.with(\.modifier, RequestModifier(identity: "a") { $0 }),
        ]
        for request in unlike {
            let copy = request
            #expect(copy == request && request != plain && copy.with(\.priority, .low) != request)
        }
        #expect(Set([plain, ImageRequest(url("a")), ImageRequest(url("b"))]).count == 2)
    }

    @Test("bytes are handed out as they arrive, none after the end; a request has its own pace")
    func partialBytes() async throws {
        let test = TestCache { $0.progressInterval = .seconds(1_000) }
        let (seen, fractions) = (Box<[Data]>([]), Box<[Double]>([]))
        let (task, transfer) = try await test.begin(DataRequest(url("a")).with(\.progressInterval, .zero))
        task.onBytes { bytes in seen.update { $0.append(bytes) } }
            .onProgress { progress in fractions.update { $0.append(progress.fraction) } }
        for count in [30, 70] {
            transfer.hold(Parts.beginning(count))
            transfer.send(progress: count, of: 100)
            try await seen.wait { $0.last?.count == count }
            try await fractions.wait { $0.last == Double(count) / 100 }
        }
        #expect(seen.value.allSatisfy { Parts.whole.starts(with: $0) })
        transfer.finish(with: Parts.whole)
        #expect(try await task.value == Parts.whole)
        let count = seen.value.count
        await test.cache.idle()
        #expect(seen.value.count == count)
    }

    @MainActor
    @Test("a display gets a picture in its own size, unless the request says what is done to it")
    func displaySize() async throws {
        let test = TestImageCache()
        try test.script(url("a"), .sample(64, 32))
        let tile = Controller(PixelSize(width: 8, height: 8))
        let binding = ImageBinding(tile, cache: test.cache, options: DisplayOptions().with(\.downsampling, .fit))
        let small = try await binding.setImageAndWait(ImageRequest(url("a"))).image
        #expect(small.size == PixelSize(width: 8, height: 4) && tile.content.image?.size == small.size)
        for size in [
            PixelSize(width: 0, height: 0), PixelSize(width: 0, height: 100), PixelSize(width: -5, height: 10),
        ] {
            let controller = Controller(size)
            let early = ImageBinding(
                controller, cache: test.cache, options: DisplayOptions().with(\.downsampling, .fit))
            await #expect(throws: DipperError.processingFailed, "a display before its layout gets no large picture") {
                try await early.setImageAndWait(ImageRequest(url("a")))
            }
            withExtendedLifetime(controller) {}
        }
        let round = ImageRequest(url("a")).processed(by: .circle)
        #expect(try await binding.setImageAndWait(round).image.size == PixelSize(width: 32, height: 32))
        #expect(test.cache.imageKey(for: round) == test.cache.getImage(round).imageKey)
    }
}
