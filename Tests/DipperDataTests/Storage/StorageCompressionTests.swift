import DipperTesting
import Foundation
import Logging
import TestSupport
import Testing

@testable import DipperData

@Suite("Bodies are compressed on disk where that is worth it", .timeLimit(.minutes(5)))
struct StorageCompressionTests {
    private static let json = Data(
        (0..<400).map { "{\"id\": \($0), \"name\": \"entry number \($0)\", \"price\": \($0 * 37 % 101)}" }
            .joined(separator: ",\n").utf8)

    private static func noise(_ count: Int) -> Data {
        var random = SplitMix(state: 7)
        return Data((0..<count).map { _ in UInt8(random.below(256)) })
    }

    private func tier(_ folder: TemporaryFolder, _ compression: StorageCompression) -> DiskTier {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return DiskTier(
            .init(folder: folder.url.path, compression: compression), logger: logger, now: ManualDate().time)
    }

    private func record(_ key: CacheKey, _ body: Data, type: String? = nil) -> EntryRecord {
        EntryRecord(
            key: key,
            value: StoredData(
                data: body,
                info: EntryInfo(
                    url: key.string, headers: HTTPHeaders(type.map { [.init("Content-Type", $0)] } ?? []),
                    stored: 1_800_000_000)),
            lifetime: .forever)
    }

    private func keep(_ record: EntryRecord, in tier: DiskTier) async {
        tier.write(record)
        await tier.synchronize()
    }

    // MARK: Round trips

    @Test("what is written compressed is read by a cache that does not compress, and the other way round")
    func bothWays() async throws {
        for (writing, reading) in [(StorageCompression.gzip, StorageCompression.off), (.off, .gzip), (.gzip, .gzip)] {
            let folder = TemporaryFolder()
            let writer = tier(folder, writing)
            let large = record("large", Self.json + Self.noise(4_000))
            let small = record("small", Data(repeating: 65, count: 1_500))
            await keep(large, in: writer)
            await keep(small, in: writer)
            await writer.shutdown()
            let reader = tier(folder, reading)
            for original in [large, small] {
                let read = try #require(reader.entry(for: original.key))
                #expect(read.value.data == original.value.data)
                #expect(read.value.info.url == original.value.info.url)
                #expect(reader.contains(original.key))
            }
            #expect(await reader.verify().isSound)
            await reader.shutdown()
        }
    }

    @Test("sizes count what lies on disk, and what becomes small by it needs no file")
    func sizes() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder, .gzip)
        await keep(record("text", Data(repeating: 65, count: 500_000)), in: tier)
        #expect(folder.files.allSatisfy { !$0.hasPrefix("blobs/") })
        #expect(tier.totals.bytes < 2_048)
        await keep(record("json", Self.json + Self.noise(4_000)), in: tier)
        let file = try #require(folder.files.first { $0.hasPrefix("blobs/") })
        let size = try #require(
            FileManager.default.attributesOfItem(atPath: folder.url.path + "/" + file)[.size] as? Int)
        #expect(size < (Self.json.count + 4_000) * 7 / 8 + 512)
        #expect(tier.details(of: "json")?.size == size)
        #expect(tier.file(for: "json") == nil, "no other program could open it")
        await tier.shutdown()
    }

    @Test("the file of a compressed entry begins with a gzip stream that others can read")
    func readableByOthers() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder, .gzip)
        let body = Self.json + Self.noise(4_000)
        await keep(record("json", body), in: tier)
        let file = try #require(folder.files.first { $0.hasPrefix("blobs/") })
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/gzip")
        process.arguments = ["-dcq"]
        process.standardInput = try FileHandle(forReadingFrom: folder.url.appendingPathComponent(file))
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        #expect(try pipe.fileHandleForReading.readToEnd() == body)
        process.waitUntilExit()
        await tier.shutdown()
    }

    // MARK: Savings

    @Test("small bodies, those of compressed formats and those that save too little are kept as they are")
    func worth() {
        let text = Self.json
        func isCompressed(_ body: Data, _ type: String? = nil) -> Bool {
            StorageCompression.gzip.compressed(record("k", body, type: type).value) != nil
        }
        #expect(isCompressed(text))
        #expect(isCompressed(text, "application/json; charset=utf-8"))
        #expect(isCompressed(text, "image/svg+xml"))
        #expect(isCompressed(Data(repeating: 0, count: 1_024)))
        #expect(!isCompressed(Data(repeating: 0, count: 1_023)))
        #expect(!isCompressed(Data()))
        for type in ["image/jpeg", "IMAGE/PNG", "video/mp4", "application/zip ; x=y", "font/woff2", "application/pdf"] {
            #expect(!isCompressed(text, type), "\(type)")
        }
        let beginnings: [[UInt8]] = [
            [0xFF, 0xD8, 0xFF, 0xE0], [0x89, 0x50, 0x4E, 0x47], Array("GIF89a".utf8), Array("RIFF1234WEBPVP8 ".utf8),
            [0, 0, 0, 32] + Array("ftypavif".utf8), Array("PK\u{3}\u{4}".utf8), [0x1F, 0x8B, 8],
            [0x28, 0xB5, 0x2F, 0xFD], Array("%PDF-1.7".utf8), Array("wOF2".utf8),
        ]
        for beginning in beginnings { #expect(!isCompressed(Data(beginning) + text, "text/plain"), "\(beginning)") }
        #expect(isCompressed(Data("RIFF1234WAVEfmt ".utf8) + text))
        #expect(!isCompressed(Self.noise(20_000)))
        // Fifteen sixteenths are noise: less than an eighth is saved. With three quarters it is more.
        #expect(!isCompressed(Self.noise(15_000) + Data(count: 1_000)))
        #expect(isCompressed(Self.noise(12_000) + Data(count: 4_000)))
        #expect(StorageCompression.off.compressed(record("k", text).value) == nil)
    }

    @Test("a body that saves an eighth to the byte is compressed, one byte less and it is not")
    func exactLimit() throws {
        let body = Self.json
        let size = try #require(Gzip.compress(body, atMost: body.count)).count
        #expect(Gzip.compress(body, atMost: size)?.count == size)
        #expect(Gzip.compress(body, atMost: size - 1) == nil)
    }

    // MARK: Damage

    @Test("no truncation and no flipped bit of a compressed record is taken for whole")
    func damaged() {
        let original = record("key", Data(Self.json.prefix(2_000)))
        let (body, trailer) = original.encoded(.gzip)
        let whole = [UInt8](body) + trailer
        func decoded(_ bytes: [UInt8]) -> Data? {
            bytes.withUnsafeBytes { EntryRecord.decode($0) { _ in Data() } }?.value.data
        }
        #expect(decoded(whole) == original.value.data)
        for count in 0..<whole.count { #expect(decoded(Array(whole.prefix(count))) == nil) }
        for index in whole.indices {
            var flipped = whole
            flipped[index] ^= 1 << (index % 8)
            #expect(decoded(flipped) == nil, "byte \(index)")
        }
    }

    @Test("a stream that makes more or less than it says is not read, whatever it would make")
    func bombs() throws {
        let zeros = Data(count: 3_000_000)
        let packed = try #require(Gzip.compress(zeros, atMost: zeros.count))
        #expect(packed.count < 4_000)
        packed.withUnsafeBytes { bytes in
            #expect(Gzip.decompress(bytes, count: zeros.count) == zeros)
            for count in [0, 1, 1_000, zeros.count - 1, zeros.count + 1, 4_000_000, 1 << 40, .max, -1] {
                #expect(Gzip.decompress(bytes, count: count) == nil, "\(count)")
            }
            for count in [0, 1, 17, bytes.count - 1] {
                let part = UnsafeRawBufferPointer(rebasing: bytes.prefix(count))
                #expect(Gzip.decompress(part, count: zeros.count) == nil)
            }
        }
        (packed + [0]).withUnsafeBytes { #expect(Gzip.decompress($0, count: zeros.count) == nil) }
        (packed + packed).withUnsafeBytes { #expect(Gzip.decompress($0, count: zeros.count) == nil) }
    }

    @Test("the checksum is of what lies there: a flipped byte of a compressed file is a miss, and the file goes")
    func flippedFile() async throws {
        let folder = TemporaryFolder()
        let tier = tier(folder, .gzip)
        await keep(record("a", Self.json + Self.noise(4_000)), in: tier)
        let name = try #require(folder.files.first { $0.hasPrefix("blobs/") })
        let file = folder.url.appendingPathComponent(name)
        var bytes = try Data(contentsOf: file)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: file)
        #expect(tier.entry(for: "a") == nil)
        await tier.synchronize()
        #expect(!FileManager.default.fileExists(atPath: file.path))
        await tier.shutdown()
    }

    // MARK: Versions

    @Test("a record that is not compressed is what it was before there was compression")
    func oldVersion() {
        let original = record("key", Self.noise(2_000))
        let (body, trailer) = original.encoded(.gzip)
        #expect(body == original.value.data)
        #expect(Array(trailer.suffix(28).prefix(4)) == [2, 0, 0, 0])
        #expect(Array(trailer.suffix(12).prefix(4)) == [0, 0, 0, 0])
        #expect(Array(record("key", Self.json).encoded(.gzip).trailer.suffix(28).prefix(4)) == [3, 0, 0, 0])
    }

    @Test("a cache that compresses answers with the body, from the network, from memory and from disk")
    func cache() async throws {
        let folder = TemporaryFolder()
        let test = TestCache(folder: folder) { $0.compression = .gzip }
        test.transport.script(url("a"), [.body(Self.json)])
        #expect(try await test.cache.getData(url("a")).value == Self.json)
        await test.cache.synchronize()
        #expect(test.cache.diskSize < Self.json.count / 2)
        test.cache.clearMemory()
        let response = try await test.cache.getData(url("a")).response
        #expect(response.data == Self.json && response.source == .disk)
        test.cache.clearMemory()
        #expect(test.cache.data(for: url("a")) == Self.json)
        await test.cache.shutdown()
    }
}

extension ManualDate {
    /// The time as a closure.
    var time: @Sendable () -> Date { { self.now } }
}
