import FaultServer
import Logging
import TestSupport
import Testing

@Suite("Options do what they are named after", .timeLimit(.minutes(2)))
struct OptionTests {
    // MARK: Transport

    @Test("the metrics of a transfer tell, in their order, the times of the name, the connection and the first byte")
    func times() async throws {
        try await withFaultServer { server, cache async throws in
            for number in 0..<2 {
                let target = "http://localhost:\(server.port)/bytes/10/\(number)?delay=20"
                let metrics = try await cache.getData(DataRequest(string: target)).response.metrics
                let its = try #require(metrics)
                guard number == 0 else { return #expect(its.reusedConnection && its.connect == .zero) }
                #expect(its.nameLookup > .zero && its.connect > its.nameLookup && its.firstByte > its.connect)
            }
        }
    }

    @Test("the user agent of a cache is sent, unless a request has its own")
    func userAgent() async throws {
        try await withFaultServer {
            $0.network.userAgent = "Kiosk/2"
        } _: { server, cache async throws in
            _ = try await cache.getData(server.url("/bytes/10/a")).value
            _ = try await cache.getData(DataRequest(server.url("/bytes/10/b")).with(\.headers, ["User-Agent": "Own"]))
                .value
            #expect(server.requests.map { $0.header("User-Agent") } == ["Kiosk/2", "Own"])
        }
    }

    @Test("a transport that does not decode asks for no coding, and hands bodies on as they were sent")
    func undecoded() async throws {
        let path = "/bytes/5000/a"
        for decodes in [true, false] {
            try await withFaultServer {
                $0.network.decodesContent = decodes
            } _: { server, cache async throws in
                let response = try await cache.getData(server.url(path + "?gzip=1")).response
                #expect((server.requests[0].header("Accept-Encoding")?.contains("gzip") == true) == decodes)
                #expect((response.data == FaultServer.body(of: path, size: 5_000)) == decodes)
                #expect(response.data.starts(with: [0x1F, 0x8B]) == !decodes)
            }
        }
    }

    @Test("the time limit of tiers is how long the network waits for them")
    func tierTimeLimit() async throws {
        let gate = Gate()
        let isFilled = Box(false)
        let shelf = Shelf { isFilled.value ? .waits(gate) : .works }
        for run in 0..<2 {
            let test = TestCache {
                $0.tiers = [shelf]
                $0.tierTimeLimit = .seconds(3)
            }
            test.transport.script(url("a"), [.text("net", ["Cache-Control": "max-age=500"])])
            let task = test.cache.getData(url("a"))
            if run == 1 {
                try await test.clock.waitForSleepers(1)
                test.clock.advance(by: .milliseconds(2_900))
                gate.open()
            }
            #expect(try await task.response.source == (run == 0 ? .network : .shared))
            await test.cache.synchronize()
            isFilled.update { $0 = true }
        }
    }

    // MARK: Pictures

    #if GIF
        @Test("the frames of an animation are decoded with its picture if the request asks for it, and only then")
        func preloadedFrames() async throws {
            let test = TestImageCache()
            let film = try Film.file([20, 30, 40])
            for preloads in [nil, true, false] as [Bool?] {
                let address = url("\(preloads.map { "\($0)" } ?? "default")")
                test.transport.script(address, [.body(film)])
                let image = try await test.cache.getImage(ImageRequest(address).with(\.preloadsFrames, preloads)).value
                let frames = try #require(image.animation)
                #expect(frames.frameCount == 3)
                #expect(frames.preloaded?.map { Film.number(of: $0.image) } == (preloads == true ? [0, 1, 2] : nil))
            }
        }
    #endif

    @Test("a replaced picture is told from one that failed")
    func replaced() async throws {
        let test = TestImageCache()
        let screen = Screen(test.cache)
        let errors = Box<[Bool]>([])
        test.transport.script(url("none"), [.status(404)])
        for name in ["waits", "none"] {
            screen.perform { binding in
                binding.setImage(url(name)) { result in
                    if case .failure(let error) = result { errors.update { $0.append(error.isReplaced) } }
                }
            }
        }
        try await errors.wait { $0.count == 2 }
        #expect(errors.value == [true, false])
    }

    // MARK: Lists

    /// Scrolls a list of ten visible rows by five at a time.
    private func scroll(
        _ test: TestImageCache, steps: Int, every time: Duration, _ change: (inout ListOptions) -> Void
    ) -> ListLoader {
        var options = ListOptions()
        options.maxPrefetches = 0
        change(&options)
        let list = ListLoader(test.cache, count: 1_000, options: options, clock: test.clock) { row in
            [ImageRequest(url("row/\(row)"))]
        }
        for step in 1...steps {
            test.clock.advance(by: time)
            list.update(visible: step * 5..<step * 5 + 10)
        }
        return list
    }

    @Test("the shortest dwell decides at which speed rows are fetched on their way")
    func minimumDwell() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 100 }
        // 80 rows in the default of 250 ms, but five in this one. The clock stands still, so the list does not rest.
        let list = scroll(test, steps: 20, every: .milliseconds(16)) { $0.minimumDwell = .milliseconds(16) }
        for row in 100..<110 { try await test.transport.waitForTransfers(1, of: url("row/\(row)")) }
        withExtendedLifetime(list) {}
    }

    @Test("the time after which a list rests decides whether slow steps are one movement")
    func restsAfter() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 100 }
        // After the default of 50 ms each step would be a rest, and its rows would be fetched.
        let list = scroll(test, steps: 20, every: .milliseconds(100)) {
            $0.minimumDwell = .seconds(1)
            $0.restsAfter = .milliseconds(400)
        }
        try await test.clock.wake(after: .milliseconds(400))
        for row in 100..<110 { try await test.transport.waitForTransfers(1, of: url("row/\(row)")) }
        // Until it was seen to rush, the list moved two screens.
        let rows = test.transport.transfers.compactMap { Int($0.request.url.lastPathComponent) }
        #expect(rows.allSatisfy { $0 < 30 || $0 >= 100 }, "\(rows)")
        withExtendedLifetime(list) {}
    }

    // MARK: Log

    @Test("what the log tells of the folder has the category of the cache")
    func category() async throws {
        let folder = TemporaryFolder()
        try folder.place("theirs", at: "README")
        let categories = Box<[String]>([])
        let test = TestCache(folder: folder) { configuration in
            configuration.logger = .recording { event, metadata in
                guard event.message.description.contains("README") || event.level >= .warning else { return }
                categories.update { $0.append("\(metadata["category"] ?? "none")") }
            }
        }
        #expect(categories.value == ["cache"])
        await test.cache.shutdown()
    }
}
