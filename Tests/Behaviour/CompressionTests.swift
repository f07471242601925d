import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Bodies are compressed on disk where that is worth it", .timeLimit(.minutes(2)))
struct CompressionTests {
    private let folder = TemporaryFolder()
    private static let json = Data(
        (0..<400).map { "{\"id\": \($0), \"name\": \"entry number \($0)\", \"price\": \($0 * 37 % 101)}" }
            .joined(separator: ",\n").utf8)

    private func cache(_ compression: StorageCompression = .gzip) -> TestCache {
        TestCache.onDisk(folder) { $0.compression = compression }
    }

    @Test(
        "what one cache writes compressed another reads that does not compress, and the other way round",
        arguments: [(.gzip, .off), (.off, .gzip), (.gzip, .zstd), (.zstd, .off), (.off, .zstd), (.zstd, .gzip)]
            as [(StorageCompression, StorageCompression)])
    func bothWays(writing: StorageCompression, reading: StorageCompression) async throws {
        let bodies = ["large": Self.json + DiskBytes.noise(4_000), "small": Data(repeating: 65, count: 1_500)]
        let writer = cache(writing)
        for (key, body) in bodies {
            writer.transport.script(url(key), [.response(TransferResponse(headers: ["X": "y"], body: body))])
            #expect(try await writer.cache.getData(url(key)).value == body)
        }
        await writer.cache.shutdown()
        let reader = cache(reading)
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
        let cache = cache(compression).cache
        try await cache.addDataAndWait(Data(repeating: 65, count: 500_000), for: "text")
        #expect(cache.diskSize < 2_048)
        let body = Self.json + DiskBytes.noise(4_000)
        try await cache.addDataAndWait(body, for: "json")
        let size = try #require(cache.entry(for: "json")).size
        #expect(size < body.count * 7 / 8 + 512 && size > 4_000)
        #expect(cache.file(for: "json") == nil && cache.data(for: "json") == body)
    }

    @Test(
        "a compressed body that is damaged on disk is fetched again", arguments: [.gzip, .zstd] as [StorageCompression])
    func damaged(compression: StorageCompression) async throws {
        let test = cache(compression)
        let body = DiskBytes.noise(200_000) + Data(count: 100_000)
        test.transport.script(url("a"), [.body(body), .body(body)])
        _ = try await test.cache.getData(DataRequest(url("a")).with(\.waitsForDiskWrite, true)).value
        try #require(folder.largestFile).damage(at: 100)
        let response = try await test.cache.getData(url("a")).response
        #expect(response.source == .network && response.data == body)
    }

    @Test("small bodies, those of compressed formats and those that save too little are kept as they are")
    func worth() async throws {
        let test = cache()
        func isCompressed(_ body: Data, _ type: String? = nil) async throws -> Bool {
            let target = url("\(test.transport.transfers.count)")
            let headers = HTTPHeaders(type.map { [.init("Content-Type", $0)] } ?? [])
            test.transport.script(target, [.response(TransferResponse(headers: headers, body: body))])
            _ = try await test.cache.getData(DataRequest(target).with(\.waitsForDiskWrite, true)).value
            #expect(test.cache.data(for: target) == body)
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
