import TestSupport
import Testing

@Suite("Of what is added and what is fetched for a key, the later stays in every tier", .timeLimit(.minutes(2)))
struct LaterWinsTests {
    private let a = url("a.png")
    private let older = Image.sample(8, 6, seed: 1)
    private let newer = Image.sample(8, 6, seed: 2)

    enum Fetch: CaseIterable { case picture, processed, bytes }

    @Test(
        "a fetch that begins while an added picture is encoded brings the picture that stays", arguments: Fetch.allCases
    )
    func fetchedWhileEncoded(_ fetch: Fetch) async throws {
        let held = Door()
        let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
        try test.script(a, newer)
        let request = fetch == .processed ? ImageRequest(a).inverted : ImageRequest(a)
        try test.cache.addImage(older, for: request.with(\.serializer, held.serializer))
        try await held.waitForArrivals(1)
        if fetch == .bytes {
            _ = try await test.cache.data.getRemoteData(a).value
            test.cache.clearMemory()
        } else {
            _ = try await test.cache.getRemoteImage(request).value
        }
        held.stayOpen()
        let expected = try fetch == .processed ? newer.inverted : newer.pixels
        for _ in 0..<2 {
            #expect(test.cache.readImage(for: request)?.pixels == expected)
            await test.forgetMemory()
        }
    }

    @Test("a processed picture that is being encoded does not come after an original that is added, or fetched, later")
    func processed() async throws {
        for isFetched in [false, true] {
            let held = Door()
            let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 2 }
            try test.script(a, newer)
            let processed = ImageRequest(a).inverted
            try test.cache.addImage(older, for: processed.with(\.serializer, held.serializer))
            try await held.waitForArrivals(1)
            if isFetched { _ = try await test.pixelsFromServer(a) } else { try test.cache.addImage(newer, for: a) }
            held.stayOpen()
            await test.forgetMemory()
            #expect(try test.cache.readImage(for: processed)?.pixels == newer.inverted)
        }
    }

    @Test("a picture read from disk while a newer one is fetched does not take its place in memory")
    func readWhileFetched() async throws {
        let one = TestImageCache(folder: TemporaryFolder())
        try one.script(a, older)
        try await one.load(a)
        let decoder = FirstHeld()
        let test = await one.reopened { $0.codecs.register(decoder) }
        try test.script(a, newer)
        let (cache, address) = (test.cache, a)
        let seen = Box(false)
        Thread.detachNewThread {
            _ = cache.readImage(for: address)
            seen.update { $0 = true }
        }
        try await decoder.door.waitForArrivals(1)
        #expect(try await test.pixelsFromServer(a) == newer.pixels)
        decoder.door.stayOpen()
        try await seen.wait { $0 }
        #expect(cache.readImage(for: a)?.pixels == newer.pixels)
    }

    @Test("a processed picture that is being read from disk gives way to newer bytes of its original")
    func formReadWhileFetched() async throws {
        let processed = ImageRequest(a).inverted
        let one = TestImageCache(folder: TemporaryFolder()) { $0.data.recordCodec = ReadDoor() }
        try one.script(a, older)
        try await one.load(processed)
        let codec = ReadDoor()
        let test = await one.reopened { $0.data.recordCodec = codec }
        try test.script(a, newer)
        codec.isShut.update { $0 = true }
        let read = test.cache.getImage(processed)
        try await codec.door.waitForArrivals(1)
        #expect(try await test.pixelsFromServer(a) == newer.pixels)
        codec.door.stayOpen()
        _ = try await read.value
        await test.cache.idle()
        for _ in 0..<2 {
            #expect(try test.cache.readImage(for: processed)?.pixels == newer.inverted)
            await test.forgetMemory()
        }
    }

    @Test("what is added right after a call for newer bytes stays, also while the call is on its way")
    func addedAfterCall() async throws {
        for round in 0..<40 {
            let test = TestCache(folder: TemporaryFolder())
            test.transport.script(a, [.body(Data("fetched".utf8))])
            let task = test.cache.getRemoteData(a)
            try test.cache.addData(Data("added \(round)".utf8), for: a)
            _ = try await task.value
            await test.cache.idle()
            #expect(test.cache.readData(for: a) == Data("added \(round)".utf8))
            test.cache.clearMemory()
            #expect(test.cache.readData(for: a) == Data("added \(round)".utf8))
        }
    }

    @Test("a picture that is added right after a stale one was shown stays, although a newer one is being fetched")
    func addedAfterStale() async throws {
        for round in 0..<30 {
            let test = TestImageCache(folder: TemporaryFolder())
            let headers: HTTPHeaders = ["Cache-Control": "max-age=10, stale-while-revalidate=600"]
            try test.script(a, .sample(8, 6, seed: 100), .sample(8, 6, seed: 101), headers: headers)
            try await test.load(a)
            test.date.advance(by: 20)
            let added = Image.sample(8, 6, seed: UInt8(round + 1))
            let stale = test.cache.getImage(a)
            try test.cache.addImage(added, for: a)
            #expect(try await stale.response.source == .stale)
            await test.cache.idle()
            for _ in 0..<2 {
                #expect(test.cache.readImage(for: a)?.pixels == added.pixels)
                await test.forgetMemory()
            }
        }
    }

    @Test("bytes that are added replace those of a shared tier")
    func shared() async throws {
        let tier = Shelf()
        let test = TestCache { $0.tiers = [tier] }
        test.transport.script(a, [.body(Data("fetched".utf8)), .body(Data("again".utf8))])
        _ = try await test.cache.getData(a).value
        await test.cache.idle()
        #expect(tier.records.value.count == 1)
        try test.cache.addData(Data("added".utf8), for: a)
        await test.cache.synchronize()
        #expect(tier.records.value.count == 0)
    }

    @Test(
        "a random walk of adding, fetching and removing pictures: each tier has what the order says", arguments: 1...4)
    func pictures(seed: Int) async throws {
        var walk = PictureWalk(seed)
        for step in 0..<workload(160) { try await walk.step(step) }
        try await walk.check("end")
    }

    @Test("a random walk of adding, fetching and removing bytes and values", arguments: 1...4)
    func bytes(seed: Int) async throws {
        var walk = BytesWalk(seed)
        for step in 0..<workload(300) { try await walk.step(step) }
        try await walk.check("end")
    }
}

/// Pictures and their inverted forms, of a few addresses. The server has another picture each time.
private struct PictureWalk {
    private enum Latest {
        case removed
        case added(Image)
        case fetched(ImageTask)
    }

    private let test = TestImageCache(folder: TemporaryFolder()) { $0.decodingThreads = 3 }
    private var random: SeededRandom
    private let seed: Int
    private var made: UInt8 = 0
    private var originals: [URL: Latest] = [:]
    /// Inverted pictures that were added later than their originals.
    private var inverted: [URL: Image] = [:]
    private var tasks: [ImageTask] = []
    /// The changes since the last check.
    private var changes: [String] = []

    init(_ seed: Int) {
        (self.seed, random) = (seed, SeededRandom(UInt64(seed)))
        for address in Self.addresses {
            let pictures = (0..<100).map { Image.sample(40, 30, seed: UInt8($0 + 100)) }
            test.transport.script(address, pictures.compactMap { try? .image($0) })
        }
    }

    private static let addresses = [url("0.png"), url("1.png")]

    mutating func step(_ step: Int) async throws {
        let address = Self.addresses[random.below(2)]
        let cache = test.cache
        made = made % 99 + 1
        let picture = Image.sample(40, 30, seed: made)
        let change = random.below(12)
        changes.append("\(change) \(address.lastPathComponent) \(made)")
        switch change {
        case 0, 1, 2:
            try cache.addImage(picture, for: address)
            (originals[address], inverted[address]) = (.added(picture), nil)
        case 3:
            try cache.addImage(bytes: picture.png, for: address)
            (originals[address], inverted[address]) = (.added(picture), nil)
        case 4:
            // Newer bytes that are under way take what was made of earlier ones away.
            await endCalls()
            try cache.addImage(picture, for: ImageRequest(address).inverted)
            inverted[address] = picture
        case 5, 6, 7:
            let request = random.chance(3) ? ImageRequest(address).inverted : ImageRequest(address)
            let task = cache.getRemoteImage(request)
            tasks.append(task)
            (originals[address], inverted[address]) = (.fetched(task), nil)
        case 8:
            cache.removeImage(for: address)
            (originals[address], inverted[address]) = (Latest.removed, nil)
        case 9: cache.clearMemory()
        default: try await check("\(seed)/\(step)")
        }
    }

    private mutating func endCalls() async {
        for task in tasks { _ = await task.result }
        tasks = []
    }

    mutating func check(_ place: String) async throws {
        await endCalls()
        await test.cache.idle()
        for _ in 0..<2 {
            for address in Self.addresses {
                var (expected, processed) = (UInt8?.none, inverted[address]?.blue)
                switch originals[address] {
                case .added(let image)?: expected = image.blue
                case .fetched(let task)?:
                    let blue = try await task.value.blue
                    expected = task.request.processors == nil ? blue : 255 - blue
                case .removed?, nil: break
                }
                processed = processed ?? expected.map { 255 - $0 }
                #expect(test.cache.readImage(for: address)?.blue == expected, "\(place): \(address) \(changes)")
                let found = test.cache.readImage(for: ImageRequest(address).inverted)?.blue
                #expect(found == processed, "\(place): \(address), inverted \(changes)")
            }
            // The second time from disk.
            test.cache.clearMemory()
        }
        changes = []
    }
}

extension Image {
    /// The seed of a sample.
    fileprivate var blue: UInt8 { pixels[2] }
}

private struct BytesWalk {
    private enum Latest {
        case removed
        case added(Int)
        case fetched(DataTask)
    }

    private let test = TestCache(folder: TemporaryFolder())
    private var random: SeededRandom
    private let seed: Int
    private var latest: [URL: Latest] = [:]
    private var tasks: [DataTask] = []
    private static let addresses = [url("0"), url("1")]

    init(_ seed: Int) {
        (self.seed, random) = (seed, SeededRandom(UInt64(seed)))
        for address in Self.addresses {
            test.transport.script(address, (1_000..<1_400).map { .body(Data("\($0)".utf8)) })
        }
    }

    mutating func step(_ step: Int) async throws {
        let (address, cache) = (Self.addresses[random.below(2)], test.cache)
        switch random.below(10) {
        case 0, 1, 2:
            try cache.addData(Data("\(step)".utf8), for: address)
            latest[address] = .added(step)
        case 3, 4, 5:
            let task = cache.getRemoteData(address)
            tasks.append(task)
            latest[address] = .fetched(task)
        case 6:
            cache.removeData(for: address)
            latest[address] = Latest.removed
        case 7: cache.clearMemory()
        case 8: _ = cache.readValue(Int.self, for: address)
        default: try await check("\(seed)/\(step)")
        }
    }

    mutating func check(_ place: String) async throws {
        for task in tasks { _ = await task.result }
        tasks = []
        await test.cache.idle()
        for _ in 0..<2 {
            for address in Self.addresses {
                let expected: Int? =
                    switch latest[address] {
                    case .added(let number)?: number
                    case .fetched(let task)?: try await Int(String(decoding: task.value, as: UTF8.self))
                    case .removed?, nil: nil
                    }
                #expect(test.cache.readValue(Int.self, for: address) == expected, "\(place): \(address)")
                #expect(
                    test.cache.readData(for: address) == expected.map { Data("\($0)".utf8) }, "\(place): \(address)")
            }
            test.cache.clearMemory()
        }
    }
}

/// A codec that changes nothing, and holds those who read.
private final class ReadDoor: RecordCodec {
    let identifier = "read door"
    let door = Door()
    let isShut = Box(false)

    func encode(_ record: Data) -> Data { record }
    func decode(_ bytes: Data) -> Data {
        if isShut.value { door.pass() }
        return bytes
    }
}

/// Holds the first decode.
private final class FirstHeld: ImageDecoder {
    private let decoder = PNGDecoder()
    private let begun = Box(0)
    let door = Door()

    var format: ImageFormat { decoder.format }
    func recognizes(_ start: Data) -> Bool { decoder.recognizes(start) }
    func info(of data: Data) throws(DipperError) -> ImageInfo { try decoder.info(of: data) }
    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        if begun.increment() == 1 { door.pass() }
        return try decoder.decode(data, options)
    }
}

extension TestImageCache {
    fileprivate func pixelsFromServer(_ url: URL) async throws -> [UInt8] {
        try await cache.getRemoteImage(url).value.pixels
    }
}
