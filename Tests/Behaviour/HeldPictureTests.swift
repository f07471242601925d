import TestSupport
import Testing

@Suite("Pictures on display are found though evicted", .timeLimit(.minutes(2)))
struct HeldPictureTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()

    @Test("as long as somebody holds one, nobody decodes it again; then it is gone")
    func evicted() async throws {
        let test = TestImageCache()
        try test.script(a, picture, picture)
        var image: Image? = try await test.load(a)
        weak let pixels = image?.storage
        test.cache.trimMemory(to: 0)
        #expect(test.cache.memoryCount == 0 && pixels != nil)
        let again = try await test.cache.getImage(a).response
        #expect(again.source == .memory && again.image.storage === image?.storage)
        #expect(test.cache.memoryCount == 1, "memory has it again")
        test.cache.trimMemory(to: 0)
        #expect(test.cache.hasImage(for: a, in: .memory) && test.cache.imageInMemory(for: a) != nil)
        test.cache.trimMemory(to: 0)
        image = nil
        _ = consume again
        #expect(pixels == nil && test.cache.imageInMemory(for: a) == nil)
        try await test.load(a)
        #expect(test.decoder.decodes == 2)
    }

    @Test("so does a picture that is too large for memory, or comes under severe pressure")
    func refused() async throws {
        let pressure = ManualMemoryPressure()
        for isLarge in [true, false] {
            pressure.level = isLarge ? .normal : .severe
            let test = TestImageCache {
                $0.data.memoryPressure = pressure
                if isLarge { $0.memoryLimit = 5_000 }
            }
            try test.script(a, picture)
            let image = try await test.load(a)
            #expect(test.cache.memoryCount == 0)
            #expect(try await test.cache.getImage(a).value.storage === image.storage)
            #expect(test.decoder.decodes == 1)
        }
    }

    @Test("what is removed, cleared, flushed, replaced or has expired is not found, whoever holds it")
    func removed() async throws {
        let test = TestImageCache()
        let removals: [(String, (ImageCache) throws -> Void)] = [
            ("removed", { [a] in $0.removeImage(for: a) }),
            ("removed as a variant", { [a] in $0.removeVariant(for: a) }),
            ("cleared", { $0.clear() }), ("cleared from memory", { $0.clearMemory() }),
            (
                "flushed",
                { [test] cache in
                    test.date.advance(by: 9)
                    cache.flush(olderThan: .seconds(5))
                }
            ),
            ("expired", { [test] _ in test.date.advance(by: 2_000) }),
        ]
        for (name, remove) in removals {
            try test.script(a, picture)
            let image = try await test.load(ImageRequest(a).with(\.memoryExpiration, .after(.seconds(1_000))))
            test.cache.trimMemory(to: 0)
            try remove(test.cache)
            #expect(test.cache.imageInMemory(for: a) == nil && !test.cache.hasImage(for: a, in: .memory), "\(name)")
            withExtendedLifetime(image) {}
        }
        try test.script(a, picture)
        let image = try await test.load(a)
        try test.cache.addImage(.sample(seed: 9), for: a)
        test.cache.trimMemory(to: 0)
        #expect(test.cache.imageInMemory(for: a)?.pixels != image.pixels)
    }

    @Test("a request that gives a picture a shorter life ends it for whoever asks, though somebody holds it")
    func shortened() throws {
        let test = TestImageCache()
        try test.cache.addImage(picture, for: a)
        #expect(test.cache.imageInMemory(for: ImageRequest(a).with(\.memoryExpiration, .after(.seconds(10)))) != nil)
        test.date.advance(by: 11)
        #expect(test.cache.imageInMemory(for: a) == nil)
    }

    @Test("it keeps that life when it is evicted, or was never kept", arguments: [1 << 20, 5_000])
    func shortenedAndHeld(memoryLimit: Int) async throws {
        let test = TestImageCache { $0.memoryLimit = memoryLimit }
        try test.script(a, picture)
        let image = try await test.load(a)
        #expect(test.cache.imageInMemory(for: ImageRequest(a).with(\.memoryExpiration, .after(.seconds(10)))) != nil)
        test.cache.trimMemory(to: 0)
        test.date.advance(by: 9)
        #expect(test.cache.imageInMemory(for: a) != nil, "found, and in memory again if there is room")
        test.cache.trimMemory(to: 0)
        test.date.advance(by: 2)
        #expect(test.cache.imageInMemory(for: a) == nil)
        withExtendedLifetime(image) {}
    }

    @Test("processed pictures of bytes that are replaced are not found either")
    func derived() async throws {
        let test = TestImageCache()
        try test.script(a, picture)
        let request = ImageRequest(a).processed(by: .resize(width: 8))
        let image = try await test.load(request)
        test.cache.trimMemory(to: 0)
        try test.cache.addImage(bytes: try Image.sample(seed: 9).png, for: a)
        #expect(test.cache.imageInMemory(for: request) == nil)
        withExtendedLifetime(image) {}
    }

    #if GIF
        @Test("a moving picture is found with its frames")
        func moving() async throws {
            let test = TestImageCache()
            let frames = (1...3).map { AnimationFrame(image: .sample(seed: $0), duration: .milliseconds(100)) }
            try test.transport.script(a, [.animation(frames)])
            let image = try await test.load(a)
            test.cache.trimMemory(to: 0)
            #expect(test.cache.imageInMemory(for: a)?.animation === image.animation && image.animation != nil)
        }
    #endif

    @Test("while the program is hidden the cache keeps at most half, and displays what they show")
    func hidden() async throws {
        let test = TestImageCache { $0.memoryCountLimit = 4 }
        let screen = Screen(test.cache)
        for number in 0..<4 { try test.cache.addImage(.sample(seed: UInt8(number)), for: url("\(number)")) }
        screen.set(ImageRequest(url("0")))
        let shown = screen.told
        #expect(test.cache.memoryCount == 4 && !test.cache.isHidden)
        test.cache.isHidden = true
        #expect(test.cache.isHidden && test.cache.memoryCount == 2)
        try test.cache.addImage(.sample(), for: b)
        #expect(test.cache.memoryCount == 2)
        screen.perform { $0.didDisappear() }
        screen.perform { $0.willAppear() }
        #expect(screen.told == shown)
        test.cache.isHidden = false
        try test.cache.addImage(.sample(), for: a)
        #expect(test.cache.memoryCount == 3)
    }

    @Test("pressure that rises while the program is hidden, or falls, counts as well")
    func hiddenUnderPressure() throws {
        let pressure = ManualMemoryPressure()
        let test = TestImageCache {
            $0.memoryCountLimit = 4
            $0.data.memoryPressure = pressure
        }
        func fill() throws -> Int {
            for number in 0..<4 { try test.cache.addImage(.sample(), for: url("\(number)")) }
            return test.cache.memoryCount
        }
        test.cache.isHidden = true
        pressure.level = .severe
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        #expect(try fill() == 2)
        test.cache.isHidden = false
        #expect(try fill() == 4)
    }
}
