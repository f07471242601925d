import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

/// A codec that does not notice a wrong key: it inverts the bits of each byte, or returns what it was given.
private struct BlindCodec: RecordCodec {
    let identifier = "blind"
    var isRight = true

    func encode(_ record: Data) throws(DipperError) -> Data { Data(record.map { ~$0 }) }
    func decode(_ bytes: Data) throws(DipperError) -> Data { isRight ? Data(bytes.map { ~$0 }) : bytes }
}

/// A codec that encodes nothing.
private struct BrokenCodec: RecordCodec {
    let identifier = "broken"
    func encode(_ record: Data) throws(DipperError) -> Data { throw .unencodable }
    func decode(_ bytes: Data) throws(DipperError) -> Data { throw .undecodable }
}

@Suite("A codec encodes everything that is on disk", .timeLimit(.minutes(5)))
struct RecordCodecTests {
    private let target = url("a")
    private let fields: HTTPHeaders = [
        "ETag": "\"s3cretfield\"", "X-Note": "s3cretfield", "Cache-Control": "max-age=50",
    ]

    private func body(_ size: Int) -> Data {
        let text = Data("s3cretbody ".utf8)
        var body = Data()
        while body.count < size { body.append(text) }
        return body.prefix(size)
    }

    /// Returns each file in the folder that contains a secret, with the secret.
    private func found(_ folder: TemporaryFolder) throws -> [String] {
        try folder.files.flatMap { path in
            let bytes = try Data(contentsOf: folder.url.appendingPathComponent(path))
            return ["s3cretbody", "s3cretfield"].filter { bytes.firstRange(of: Data($0.utf8)) != nil }
                .map { "\(path): \($0)" }
        }
    }

    private func place(of key: CacheKey, _ folder: TemporaryFolder) -> URL {
        let name = KeyDigest.sha256(key)
        return folder.url.appendingPathComponent("blobs/\(name.prefix(2))/\(name)")
    }

    // MARK: Secrecy

    @Test(
        "bodies and header fields are nowhere in the folder in clear, and are there when it is opened again",
        arguments: [20_000, 100], [true, false])
    func stored(size: Int, isEncoded: Bool) async throws {
        let folder = TemporaryFolder()
        let codec = isEncoded ? AESCodec(1) : nil
        let body = body(size)
        var test = TestCache(folder: folder) { $0.recordCodec = codec }
        let task = test.cache.getData(target)
        try await test.transport.nextTransfer().finish(with: body, headers: fields)
        #expect(try await task.value == body)
        await test.cache.synchronize()
        #expect(try found(folder).isEmpty == isEncoded)
        await test.cache.shutdown()
        #expect(try found(folder).isEmpty == isEncoded)

        test = TestCache(folder: folder) { $0.recordCodec = codec }
        #expect(test.cache.hasData(for: target) && test.cache.memoryCount == 0)
        let kept = try #require(test.cache.response(for: target))
        #expect(kept.data == body && kept.headers["X-Note"] == "s3cretfield" && kept.source == .disk)
        #expect((test.cache.file(for: CacheKey(target)) != nil) == (size > 2_048 && !isEncoded))
        #expect(test.cache.entry(for: CacheKey(target))?.url == target.absoluteString, "the index has it in clear")
        await test.cache.shutdown()
    }

    @Test("a partial body is encoded, and continued by the next process")
    func partial() async throws {
        let folder = TemporaryFolder()
        let whole = body(1_000)
        var headers = fields
        headers["Content-Length"] = "1000"
        func cache() -> TestCache {
            TestCache(folder: folder) {
                $0.recordCodec = AESCodec(1)
                $0.retryPolicy = .never
            }
        }
        var test = cache()
        let broken = test.cache.getData(target)
        try await test.transport.nextTransfer().interrupt(with: .init(headers: headers, body: whole.prefix(400)))
        #expect(await broken.error == .connectionLost)
        await test.cache.synchronize()
        #expect(folder.files.contains { $0.hasPrefix("partial/") })
        await test.cache.shutdown()
        #expect(try found(folder) == [])

        test = cache()
        let task = test.cache.getData(target)
        let transfer = try await test.transport.nextTransfer()
        #expect(transfer.request.headers["Range"] == "bytes=400-")
        headers["Content-Length"] = "600"
        headers["Content-Range"] = "bytes 400-999/1000"
        transfer.finish(with: Data(whole.dropFirst(400)), status: 206, headers: headers)
        #expect(try await task.value == whole)
        await test.cache.shutdown()
        #expect(try found(folder) == [])
    }

    @Test("compressed entries are encoded after compression")
    func compressed() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) {
            $0.compression = .gzip
            $0.recordCodec = AESCodec(1)
        }
        tier.write(
            EntryRecord(
                key: "k", value: StoredData(data: body(50_000), info: EntryInfo(url: "", stored: 1_800_000_000)),
                lifetime: .forever))
        await tier.synchronize()
        #expect(tier.totals.bytes < 2_048)
        #expect(tier.entry(for: "k")?.value.data == body(50_000))
        await tier.shutdown()
    }

    // MARK: Other codecs

    @Test("another key, and no codec, find nothing and leave the entry alone", arguments: [5_000, 100])
    func otherCodecs(size: Int) async {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        await fill(tier, ["k"], size: size)
        await tier.shutdown()
        let wrong = AESCodec(2, identifier: AESCodec(1).identifier)
        for codec in [nil, AESCodec(2), wrong] {
            let other = diskTier(folder) { $0.recordCodec = codec }
            #expect(other.entry(for: "k") == nil && !other.contains("k") && other.file(for: "k") == nil)
            let report = await other.verify()
            #expect(report.isSound && report.unreadable == 1 && report.sound == 0, "\(report)")
            #expect(other.totals.entries == 1)
            await other.shutdown()
        }
        let again = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        #expect(again.entry(for: "k")?.value.data == diskRecord("k", size: size).value.data)
        let report = await again.verify()
        #expect(report.sound == 1 && report.unreadable == 0)
        await again.shutdown()
    }

    @Test("a codec that returns something else than the record finds nothing", arguments: [5_000, 100])
    func blind(size: Int) async {
        let folder = TemporaryFolder()
        for (codec, isFound) in [(BlindCodec(), true), (BlindCodec(isRight: false), false), (BlindCodec(), true)] {
            let tier = diskTier(folder) { $0.recordCodec = codec }
            if tier.totals.entries == 0 { await fill(tier, ["k"], size: size) }
            #expect((tier.entry(for: "k") != nil) == isFound)
            await tier.shutdown()
        }
    }

    @Test("a cache with another codec replaces what it fetches")
    func replaced() async throws {
        let folder = TemporaryFolder()
        for seed: UInt8 in [1, 2, 1] {
            let test = TestCache(folder: folder) { $0.recordCodec = AESCodec(seed) }
            test.transport.script(target, [.body(body(5_000))])
            #expect(try await test.cache.getData(target).response.source == .network)
            await test.cache.synchronize()
            test.cache.clearMemory()
            #expect(test.cache.data(for: target) == body(5_000))
            #expect(test.cache.diskCount == 1)
            await test.cache.shutdown()
        }
    }

    @Test("entries stored without a codec stay readable with one")
    func before() async {
        let folder = TemporaryFolder()
        let plain = diskTier(folder)
        await fill(plain, ["large"], size: 5_000)
        await fill(plain, ["small"], size: 100)
        await plain.shutdown()
        let tier = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        #expect(tier.entry(for: "large") != nil && tier.entry(for: "small") != nil)
        #expect(await tier.verify().sound == 2)
        await tier.shutdown()
    }

    @Test("files are listed again without the codec after the index was lost")
    func lostIndex() async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        await fill(tier, ["a", "b"], size: 5_000)
        let listed = try #require(tier.details(of: "a"))
        await tier.shutdown()
        for file in folder.files where file.hasPrefix("index") { unlink(folder.path + "/" + file) }
        let other = diskTier(folder)
        await other.reconcile()
        #expect(other.totals.entries == 2)
        #expect(other.details(of: "a") == listed)
        await other.shutdown()
        let again = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        #expect(again.entry(for: "a") != nil && again.entry(for: "b") != nil)
        await again.shutdown()
    }

    // MARK: Damage

    @Test("no flipped byte and no truncation of an encoded record is taken for whole")
    func flipped() throws {
        let format = RecordFormat(codec: AESCodec(1))
        let (body, trailer) = try format.encode(diskRecord("key", size: 200))
        let whole = [UInt8](body) + trailer
        func isDamaged(_ bytes: [UInt8], _ format: RecordFormat) -> Bool {
            bytes.withUnsafeBytes { format.decode($0) { _ in Data() } }.key == nil
        }
        #expect(!isDamaged(whole, format) && !isDamaged(whole, RecordFormat()))
        for index in whole.indices {
            var bytes = whole
            bytes[index] ^= 1
            #expect(isDamaged(bytes, format) && isDamaged(bytes, RecordFormat()), "byte \(index)")
            #expect(isDamaged(Array(whole[..<index]), format), "\(index) bytes")
        }
    }

    @Test("a damaged file is a miss and is removed", arguments: [true, false])
    func damaged(hasCodec: Bool) async throws {
        let folder = TemporaryFolder()
        let tier = diskTier(folder) { $0.recordCodec = AESCodec(1) }
        await fill(tier, ["k"], size: 5_000)
        await tier.shutdown()
        let file = place(of: "k", folder)
        var bytes = try Data(contentsOf: file)
        bytes[100] ^= 1
        try bytes.write(to: file)
        let reader = diskTier(folder) { $0.recordCodec = hasCodec ? AESCodec(1) : nil }
        #expect(reader.entry(for: "k") == nil)
        await reader.synchronize()
        #expect(!FileManager.default.fileExists(atPath: file.path))
        #expect(reader.totals.entries == 0)
        await reader.shutdown()
    }

    @Test("an entry that cannot be encoded is not written, and its earlier version is gone", arguments: [5_000, 100])
    func unencodable(size: Int) async {
        let folder = TemporaryFolder()
        let plain = diskTier(folder)
        await fill(plain, ["k"], size: size)
        await plain.shutdown()
        let tier = diskTier(folder) { $0.recordCodec = BrokenCodec() }
        #expect(tier.entry(for: "k") != nil)
        let isWritten = await withCheckedContinuation { continuation in
            tier.write(diskRecord("k", size: size)) { continuation.resume(returning: $0) }
        }
        #expect(!isWritten && tier.entry(for: "k") == nil && tier.totals.entries == 0)
        await tier.shutdown()
    }
}
