import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("A picture is decoded while its file arrives", .timeLimit(.minutes(2)))
struct EarlyDecodeTests {
    static let names = [
        "17x33", "411", "420", "422", "440", "444", "arithmetic", "cmyk", "cmyk-adobe", "cmyk-profile", "column",
        "grey",
        "large", "orientation-3", "orientation-6", "progressive", "restart",
    ]

    @Test(
        "It has the pixels of a decode of the whole file, whatever the sizes of the pieces", arguments: names,
        [1, 97, 4_000])
    func pieces(_ name: String, size: Int) throws {
        let file = try Pictures.data("jpeg/\(name).jpg")
        // A byte at a time of a large file takes long.
        let size = file.count > 5_000 && size == 1 ? 11 : size
        for side in [nil, 8, 30] as [Int?] {
            let options = DecodeOptions(target: side.map { TargetSize(width: $0, height: $0) })
            let early = EarlyDecode(.standard, options)
            var goesOn = true
            for end in stride(from: size, to: file.count, by: size) where goesOn {
                // At an address of its own each time.
                goesOn = early.advance(Data(Array(file.prefix(end))))
            }
            let picture = early.finish(file)
            let isPossible = !["arithmetic", "progressive"].contains(name)
            // The header of a small file may come with its last piece.
            #expect(picture == nil || isPossible)
            if size < 50 { #expect((picture != nil) == isPossible) }
            let whole = try JPEGDecoder().decode(file, options)
            if let picture { #expect(picture.size == whole.size && picture.pixels == whole.pixels) }
        }
    }

    @Test("Long data of other programs before the picture is skipped")
    func skipped() throws {
        let file = try Pictures.data("jpeg/420.jpg")
        let comment = Data([0xFF, 0xFE, 0xFF, 0xFF]) + Data(repeating: 7, count: 0xFFFD)
        let long = file.prefix(2) + comment + comment + file.dropFirst(2)
        let early = EarlyDecode(.standard, .init())
        for end in stride(from: 500, to: long.count, by: 500) { #expect(early.advance(long.prefix(end))) }
        #expect(try early.finish(long)?.pixels == JPEGDecoder().decode(file, .init()).pixels)
    }

    @Test("A file that is damaged, ends early or goes on as another one is left to a decode of the whole")
    func damaged() throws {
        let file = try Pictures.data("jpeg/large.jpg")
        let half = file.prefix(file.count / 2)
        func begun() -> EarlyDecode {
            let early = EarlyDecode(.standard, .init())
            #expect(early.advance(half))
            return early
        }
        #expect(begun().finish(file) != nil)
        #expect(begun().finish(file.dropLast(file.count / 4)) == nil)
        #expect(begun().finish(try Pictures.data("jpeg/420.jpg")) == nil)
        var other = file
        other[file.startIndex + file.count / 3] ^= 0x40
        #expect(begun().finish(other) == nil)
        #expect(!begun().advance(other))
        var generator = SeededRandom(5)
        for _ in 0..<100 {
            var bad = file
            for _ in 0..<4 {
                bad[bad.startIndex + Int.random(in: 0..<bad.count, using: &generator)] = .random(
                    in: 0...255, using: &generator)
            }
            for side in [nil, 8, 30] as [Int?] {
                let options = DecodeOptions(target: side.map { TargetSize(width: $0, height: $0) })
                let early = EarlyDecode(.standard, options)
                for end in stride(from: 3_000, to: bad.count, by: 3_000) where !early.advance(bad.prefix(end)) { break }
                // What libjpeg does not warn of is the same picture.
                guard let picture = early.finish(bad) else { continue }
                #expect(try picture.pixels == JPEGDecoder().decode(bad, options).pixels)
            }
        }
    }

    /// A decoder that counts what it is asked.
    private struct CountingDecoder: StreamingDecoder {
        let wholes = Box(0)
        let advances = Box(0)
        var format: ImageFormat { .jpeg }

        func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
            try JPEGDecoder().memory(of: data, options)
        }

        func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            wholes.update { $0 += 1 }
            return try JPEGDecoder().decode(data, options)
        }

        func stream(of beginning: Data, _ options: DecodeOptions) throws(DipperError) -> (any PictureStream)? {
            try JPEGDecoder().stream(of: beginning, options).map { CountingStream(stream: $0, advances: advances) }
        }
    }

    private final class CountingStream: PictureStream {
        let stream: any PictureStream
        let advances: Box<Int>

        init(stream: any PictureStream, advances: Box<Int>) { (self.stream, self.advances) = (stream, advances) }

        func advance(_ file: Data) throws(DipperError) {
            try stream.advance(file)
            advances.update { $0 += 1 }
        }

        func finish(_ file: Data) throws(DipperError) -> Image { try stream.finish(file) }
    }

    /// A noisy picture: its file is long enough.
    private static func file(seed: UInt8) throws -> Data {
        let size = 700
        var generator = SeededRandom(UInt64(seed))
        let pixels = (0..<size * size).map { _ in UInt32(truncatingIfNeeded: generator.next()) | 0xFF00_0000 }
        let image = try #require(
            pixels.withUnsafeBytes { Image(size: PixelSize(width: size, height: size), premultiplied: $0) })
        var options = EncodeOptions()
        options.quality = 1
        return try JPEGEncoder().encode(image, options)
    }

    private func test(_ decoder: CountingDecoder, _ change: (inout ImageCache.Configuration) -> Void = { _ in })
        -> TestImageCache
    {
        TestImageCache {
            $0.codecs.register(decoder)
            $0.data.progressInterval = .zero
            change(&$0)
        }
    }

    private static let url = URL(string: "https://host.test/large.jpg").unsafelyUnwrapped

    @Test("Most of it is decoded when the last byte comes, and the picture is that of the whole file")
    func arriving() async throws {
        let (decoder, file) = (CountingDecoder(), try Self.file(seed: 1))
        try #require(file.count > 300_000)
        let test = test(decoder)
        let task = test.cache.getImage(ImageRequest(Self.url).processed(by: .resize(width: 90, height: 90)))
        let transfer = try await test.transport.nextTransfer()
        for part in 1...3 {
            let count = file.count * part / 5
            transfer.hold(TransferResponse(body: file.prefix(count)))
            transfer.send(progress: count, of: file.count)
            try await decoder.advances.wait { $0 >= part }
        }
        transfer.finish(with: file)
        let image = try await task.value
        #expect(decoder.wholes.value == 0)
        let target = DecodeOptions(target: TargetSize(width: 90, height: 90))
        #expect(try image.pixels == JPEGDecoder().decode(file, target).pixels)
        await test.cache.shutdown()
    }

    @Test("After a failure another file may come from the same address")
    func otherFile() async throws {
        let (decoder, first, second) = (CountingDecoder(), try Self.file(seed: 1), try Self.file(seed: 2))
        let test = test(decoder) { $0.data.retryPolicy = .fixed(.zero, retries: 1) }
        let task = test.cache.getImage(Self.url)
        let transfer = try await test.transport.nextTransfer()
        let half = first.prefix(first.count / 2)
        transfer.hold(TransferResponse(body: half))
        transfer.send(progress: half.count, of: first.count)
        try await decoder.advances.wait { $0 == 1 }
        transfer.fail(with: .connectionLost)
        let again = try await test.transport.nextTransfer()
        again.finish(with: second)
        #expect(try await task.value.pixels == JPEGDecoder().decode(second, .init()).pixels)
        #expect(decoder.wholes.value == 1)
        await test.cache.shutdown()
    }

    @Test("A prefetch, a short file and a file that is almost there are decoded as a whole")
    func notWorthIt() async throws {
        let (decoder, file) = (CountingDecoder(), try Self.file(seed: 3))
        let test = test(decoder)
        func begin(_ task: ImageTask, progress: Int, of size: Int) async throws -> ScriptedTransfer {
            let transfer = try await test.transport.nextTransfer()
            transfer.hold(TransferResponse(body: file.prefix(progress)))
            transfer.send(progress: progress, of: size)
            return transfer
        }
        func url(_ name: String) -> URL { Self.url.appendingPathComponent(name) }
        let short = test.cache.getImage(url("short"))
        let late = test.cache.getImage(url("late"))
        var transfers = [try await begin(short, progress: 1_000, of: 100_000)]
        transfers.append(try await begin(late, progress: file.count - 10, of: file.count))
        // One that is worth it comes after them through the same threads.
        let usual = test.cache.getImage(url("usual"))
        transfers.append(try await begin(usual, progress: file.count / 2, of: file.count))
        try await decoder.advances.wait { $0 == 1 }
        for transfer in transfers { transfer.finish(with: file) }
        for task in [short, late, usual] { _ = try await task.value }
        #expect(decoder.wholes.value == 2 && decoder.advances.value == 1)

        let prefetch = test.cache.slowGetImage(url("prefetch"))
        let transfer = try await begin(prefetch, progress: file.count / 3, of: file.count)
        try await transfer.wait { $0.queue == .slow }
        // It begins as soon as the prefetch is urgent.
        let urgent = test.cache.getImage(url("prefetch"))
        try await decoder.advances.wait { $0 == 2 }
        transfer.finish(with: file)
        _ = try await (prefetch.value, urgent.value)
        #expect(decoder.wholes.value == 2)
        await test.cache.shutdown()
    }

    @Test("A file that comes to a stop holds up no other: its decoding ends, and begins anew with the next attempt")
    func parked() async throws {
        let (decoder, file) = (CountingDecoder(), try Self.file(seed: 4))
        let test = test(decoder) { $0.data.retryPolicy = .fixed(.zero, retries: 2) }
        let half = file.prefix(file.count / 2)
        let task = test.cache.getImage(Self.url)
        for attempt in 1...2 {
            let transfer = try await test.transport.nextTransfer()
            transfer.hold(TransferResponse(body: half))
            transfer.send(progress: half.count, of: file.count)
            try await decoder.advances.wait { $0 == attempt }
            if attempt == 1 { transfer.fail(with: .connectionLost) } else { transfer.finish(with: file) }
        }
        #expect(try await task.value.pixels == JPEGDecoder().decode(file, .init()).pixels)
        #expect(decoder.wholes.value == 0)
        await test.cache.shutdown()
    }
}
