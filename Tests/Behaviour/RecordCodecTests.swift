import TestSupport
import Testing

/// A codec that does not notice a wrong key: it inverts the bits of each byte, or returns what it was given.
private struct BlindCodec: RecordCodec {
    let identifier = "blind"
    var isRight = true

    func encode(_ record: Data) throws(DipperError) -> Data { Data(record.map { ~$0 }) }
    func decode(_ bytes: Data) throws(DipperError) -> Data { isRight ? Data(bytes.map { ~$0 }) : bytes }
}

private struct BrokenCodec: RecordCodec {
    let identifier = "broken"
    func encode(_ record: Data) throws(DipperError) -> Data { throw .unencodable }
    func decode(_ bytes: Data) throws(DipperError) -> Data { throw .undecodable }
}

@Suite(
    "A codec encodes everything that is on disk; bodies are compressed where that is worth it", .timeLimit(.minutes(2)))
struct RecordCodecTests {
    private let folder = TemporaryFolder()
    private let target = url("a")
    private let secrets = ["s3cretbody", "s3cretfield"]
    private let fields: HTTPHeaders = [
        "ETag": "\"s3cretfield\"", "X-Note": "s3cretfield", "Cache-Control": "max-age=50",
    ]

    private func body(_ size: Int) -> Data { DiskBytes.of(size, "s3cretbody") }

    private func cache(_ codec: (any RecordCodec)?) -> TestCache {
        TestCache.onDisk(folder) {
            $0.recordCodec = codec
            $0.retryPolicy = .never
        }
    }

    // MARK: Secrecy

    @Test(
        "bodies and header fields are nowhere in the folder in clear, and are there when it is opened again",
        arguments: [20_000, 100], [true, false])
    func stored(size: Int, isEncoded: Bool) async throws {
        let codec = isEncoded ? AESCodec(1) : nil
        var test = cache(codec)
        test.transport.script(target, [.response(TransferResponse(headers: fields, body: body(size)))])
        #expect(try await test.cache.getData(target).value == body(size))
        await test.cache.synchronize()
        #expect(try folder.finding(secrets).isEmpty == isEncoded)
        await test.cache.shutdown()
        #expect(try folder.finding(secrets).isEmpty == isEncoded)

        test = cache(codec)
        let kept = try #require(test.cache.readResponse(for: target))
        #expect(kept.data == body(size) && kept.headers["X-Note"] == "s3cretfield" && kept.source == .disk)
        #expect((test.cache.file(for: CacheKey(target)) != nil) == (size > 2_048 && !isEncoded))
        #expect(test.cache.entry(for: CacheKey(target))?.url == target.absoluteString, "listed in clear")
    }

    @Test("a partial body is encoded, and continued by the next cache with the codec alone", arguments: [true, false])
    func partial(hasCodec: Bool) async throws {
        let whole = body(1_000)
        var headers = fields
        headers["Content-Length"] = "1000"
        var test = cache(AESCodec(1))
        let beginning = TransferResponse(headers: headers, body: whole.prefix(400))
        test.transport.script(target, [.interrupted(beginning, .connectionLost)])
        #expect(await test.cache.getData(target).error == .connectionLost)
        await test.cache.shutdown()
        #expect(try folder.finding(secrets) == [])

        test = cache(hasCodec ? AESCodec(1) : nil)
        let (task, transfer) = try await test.begin(target)
        #expect(transfer.request.headers["Range"] == (hasCodec ? "bytes=400-" : nil))
        if hasCodec {
            headers["Content-Length"] = "600"
            headers["Content-Range"] = "bytes 400-999/1000"
            transfer.finish(with: Data(whole.dropFirst(400)), status: 206, headers: headers)
        } else {
            transfer.finish(with: whole, headers: headers)
        }
        #expect(try await task.value == whole)
        await test.cache.shutdown()
        if hasCodec { #expect(try folder.finding(secrets) == []) }
    }

    // MARK: Other codecs

    @Test("another key, and no codec, find nothing and leave the entry alone", arguments: [5_000, 100])
    func otherCodecs(size: Int) async throws {
        let first = cache(AESCodec(1)).cache
        try await first.keep(["k": size])
        await first.shutdown()
        for codec in [nil, AESCodec(2), AESCodec(2, identifier: AESCodec(1).identifier)] {
            let other = cache(codec).cache
            #expect(other.readData(for: "k") == nil && !other.hasData(for: "k") && other.file(for: "k") == nil)
            let report = await other.verify()
            #expect(report.isSound && report.unreadable == 1 && report.sound == 0, "\(report)")
            #expect(other.diskCount == 1 && other.listedKeys == ["k"])
            await other.shutdown()
        }
        let again = cache(AESCodec(1)).cache
        #expect(again.readData(for: "k") == DiskBytes.of(size, "k"))
        let report = await again.verify()
        #expect(report.sound == 1 && report.unreadable == 0)
    }

    @Test("a codec that returns something else than the record finds nothing", arguments: [5_000, 100])
    func blind(size: Int) async throws {
        for (codec, isFound) in [(BlindCodec(), true), (BlindCodec(isRight: false), false), (BlindCodec(), true)] {
            let test = cache(codec).cache
            if test.diskCount == 0 { try await test.keep(["k"], size: size) }
            #expect((test.readData(for: "k") == DiskBytes.of(size, "k")) == isFound)
            #expect((test.readData(for: "k") != nil) == isFound)
            await test.shutdown()
        }
    }

    // MARK: Failures

    @Test(
        "damage to an encoded entry is a miss, with the codec and without, and the entry goes",
        arguments: [true, false])
    func damaged(hasCodec: Bool) async throws {
        let writer = cache(AESCodec(1)).cache
        try await writer.keep(["k": 300_000])
        await writer.shutdown()
        try #require(folder.largestFile).damage(at: 100_000)
        let reader = cache(hasCodec ? AESCodec(1) : nil).cache
        #expect(reader.readData(for: "k") == nil)
        await reader.synchronize()
        #expect(await reader.verify().sound == 0)
        #expect(reader.diskCount == 0)
    }

    @Test(
        "entries of no codec can be read with one; what it cannot encode is not written, and the version before is gone",
        arguments: [5_000, 100])
    func uncoded(size: Int) async throws {
        let plain = cache(nil).cache
        try await plain.keep(["k": size])
        await plain.shutdown()
        let test = cache(BrokenCodec()).cache
        #expect(test.readData(for: "k") == DiskBytes.of(size, "k"))
        #expect(await test.verify().sound == 1)
        await test.expectNotDurable(size, .durable.with(\.key, "k"))
        #expect(test.readData(for: "k") == nil && test.diskCount == 0)
    }

    // MARK: Compression

    private static let json = Data(
        (0..<400).map { "{\"id\": \($0), \"name\": \"entry number \($0)\", \"price\": \($0 * 37 % 101)}" }
            .joined(separator: ",\n").utf8)

    private func compressing(_ compression: StorageCompression = .gzip) -> TestCache {
        TestCache.onDisk(folder) { $0.compression = compression }
    }

    @Test(
        "what one cache writes compressed another reads that does not compress, and the other way round",
        arguments: [(.gzip, .off), (.off, .gzip), (.gzip, .zstd), (.zstd, .off), (.off, .zstd), (.zstd, .gzip)]
            as [(StorageCompression, StorageCompression)])
    func bothWays(writing: StorageCompression, reading: StorageCompression) async throws {
        let bodies = ["large": Self.json + DiskBytes.noise(4_000), "small": Data(repeating: 65, count: 1_500)]
        let writer = compressing(writing)
        for (key, body) in bodies {
            writer.transport.script(url(key), [.response(TransferResponse(headers: ["X": "y"], body: body))])
            #expect(try await writer.cache.getData(url(key)).value == body)
        }
        await writer.cache.shutdown()
        let reader = compressing(reading)
        for (key, body) in bodies {
            let response = try await reader.cache.getData(url(key)).response
            #expect(response.data == body && response.headers["X"] == "y" && response.source == .disk)
        }
        #expect(await reader.cache.verify().isSound)
    }

    @Test(
        "sizes count what lies on disk, and no other program is pointed to a compressed file",
        arguments: [.gzip, .zstd] as [StorageCompression])
    func sizes(compression: StorageCompression) async throws {
        let cache = compressing(compression).cache
        try await cache.addDataAndWait(Data(repeating: 65, count: 500_000), for: "text")
        #expect(cache.diskSize < 2_048)
        let body = Self.json + DiskBytes.noise(4_000)
        try await cache.addDataAndWait(body, for: "json")
        let size = try #require(cache.entry(for: "json")).size
        #expect(size < body.count * 7 / 8 + 512 && size > 4_000)
        #expect(cache.file(for: "json") == nil && cache.readData(for: "json") == body)
    }

    @Test(
        "a compressed body that is damaged on disk is fetched again", arguments: [.gzip, .zstd] as [StorageCompression])
    func damagedCompressed(compression: StorageCompression) async throws {
        let test = compressing(compression)
        let body = DiskBytes.noise(200_000) + Data(count: 100_000)
        test.transport.script(target, [.body(body), .body(body)])
        _ = try await test.cache.getData(DataRequest(target).with(\.waitsForDiskWrite, true)).value
        try #require(folder.largestFile).damage(at: 100)
        let response = try await test.cache.getData(target).response
        #expect(response.source == .network && response.data == body)
    }

    @Test("small bodies, those of compressed formats and those that save too little are kept as they are")
    func worth() async throws {
        let test = compressing()
        func isCompressed(_ body: Data, _ type: String? = nil) async throws -> Bool {
            let target = url("\(test.transport.transfers.count)")
            let headers = HTTPHeaders(type.map { [.init("Content-Type", $0)] } ?? [])
            test.transport.script(target, [.response(TransferResponse(headers: headers, body: body))])
            _ = try await test.cache.getData(DataRequest(target).with(\.waitsForDiskWrite, true)).value
            #expect(test.cache.readData(for: target) == body)
            return try #require(test.cache.entry(for: CacheKey(target))).size < body.count
        }
        let text = Self.json
        for type in [nil, "application/json; charset=utf-8", "image/svg+xml"] {
            #expect(try await isCompressed(text, type))
        }
        for type in ["image/jpeg", "IMAGE/PNG", "video/mp4", "application/zip ; x=y", "font/woff2", "application/pdf"] {
            #expect(try await !isCompressed(text, type), "\(type)")
        }
        let beginnings: [[UInt8]] = [
            [0xFF, 0xD8, 0xFF, 0xE0], [0x89, 0x50, 0x4E, 0x47], Array("GIF89a".utf8), Array("RIFF1234WEBPVP8 ".utf8),
            [0, 0, 0, 32] + Array("ftypavif".utf8), Array("PK\u{3}\u{4}".utf8), [0x1F, 0x8B, 8],
            [0x28, 0xB5, 0x2F, 0xFD], Array("%PDF-1.7".utf8), Array("wOF2".utf8),
        ]
        for beginning in beginnings {
            #expect(try await !isCompressed(Data(beginning) + text, "text/plain"), "\(beginning)")
        }
        // Of fifteen sixteenths of noise less than an eighth is saved, of three quarters more.
        let others: [(Data, Bool)] = [
            (Data(count: 1_024), true), (Data(count: 1_023), false), (Data(), false),
            (Data("RIFF1234WAVEfmt ".utf8) + text, true), (DiskBytes.noise(20_000), false),
            (DiskBytes.noise(15_000) + Data(count: 1_000), false),
            (DiskBytes.noise(12_000) + Data(count: 4_000), true),
        ]
        for (body, expected) in others { #expect(try await isCompressed(body) == expected, "\(body.count)") }
    }
}
