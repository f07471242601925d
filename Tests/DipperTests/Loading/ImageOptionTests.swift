import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import Dipper

@Suite("Options of pictures, on requests and as defaults", .timeLimit(.minutes(5)))
struct ImageOptionTests {
    private let a = url("a.png")
    private let picture = Image.sample(64, 48)

    @Test("options chain on a request, those of the bytes and those of the picture alike")
    func fluent() {
        let request = ImageRequest(a).with(\.priority, .high).with(\.headers, ["X": "1"]).with(\.scale, 2)
            .processed(by: Inverting("1")).processed(by: Inverting("2"))
        #expect(request.priority == .high && request.data.headers["X"] == "1" && request.scale == 2)
        #expect(request.processors?.map(\.identifier) == ["test.1", "test.2"])
        #expect(request.url == a && request.urlString == a.absoluteString)
        var changed = request
        changed.firstFrameOnly = true
        changed.data.priority = .low
        #expect(request.firstFrameOnly == nil && request.priority == .high && changed.priority == .low)
    }

    @Test("defaults of the cache hold where a request says nothing")
    func defaults() async throws {
        let invert = Inverting()
        let test = TestImageCache {
            $0.options.processors = [invert]
            $0.options.scale = 3
        }
        test.transport.script(a, [.body(try picture.png)])
        let byDefault = try await test.cache.getImage(a).value
        #expect(byDefault.scale == 3 && invert.count.value == 1 && byDefault.pixels != picture.pixels)
        let plain = try await test.cache.getImage(ImageRequest(a).with(\.processors, []).with(\.scale, 1)).value
        #expect(plain.pixels == picture.pixels && plain.scale == 1 && invert.count.value == 1)
        await test.cache.shutdown()
    }

    @Test("the scale is that of each request, and the modifier changes what is handed out, not what is kept")
    func modifier() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let other = Image.sample(seed: 9)
        let modified = ImageRequest(a).modified { _ in other }
        #expect(try await test.cache.getImage(modified).value.pixels == other.pixels)
        #expect(try await test.cache.getImage(a).value.pixels == picture.pixels)
        #expect(test.cache.image(for: modified)?.pixels == other.pixels)
        #expect(try await test.cache.getImage(ImageRequest(a).with(\.scale, 2)).value.scale == 2)
        #expect(try await test.cache.getImage(a).value.scale == 1 && test.decoder.decodes == 1)
        await test.cache.shutdown()
    }

    @Test("decoding and processing run where the request wants them")
    func processingQueue() async throws {
        let queue = DispatchQueue(label: "mine")
        let key = DispatchSpecificKey<Bool>()
        queue.setSpecific(key: key, value: true)
        struct Where: ImageProcessor {
            let key: DispatchSpecificKey<Bool>
            let found: Box<Bool?>
            var identifier: String { "where" }
            func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
                found.update { $0 = DispatchQueue.getSpecific(key: key) }
                return image
            }
        }
        let found = Box<Bool?>(nil)
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).processed(by: Where(key: key, found: found))
            .with(\.processingQueue, .dispatch(queue))
        _ = try await test.cache.getImage(request).value
        #expect(found.value == true)
        await test.cache.shutdown()
    }

    @Test("closures run where the request wants them")
    func callbackQueue() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let ran = Box(0)
        let request = ImageRequest(a).with(
            \.callbackQueue,
            .custom { work in
                ran.update { $0 += 1 }
                work()
            })
        let task = test.cache.getImage(request) { _ in ran.update { $0 += 100 } }
        _ = try await task.value
        #expect(await settle { ran.value > 100 })
        await test.cache.shutdown()
    }

    @Test("limits are checked from the header: too many pixels are refused, whatever the bytes")
    func limits() async throws {
        let test = TestImageCache { $0.limits.pixels = 64 * 48 - 1 }
        test.transport.script(a, [.body(try picture.png)])
        #expect(await test.cache.getImage(a).error == .imageTooLarge)
        await test.cache.shutdown()
    }

    @Test("serializers: JPEG of a quality, PNG, one's own, and automatic by what is lost already")
    func serializers() throws {
        let codecs = CodecRegistry.standard
        let photo = try Pictures.data("jpeg/420.jpg")
        let image = try codecs.decode(photo)
        func format(_ serializer: ImageSerializer, _ image: Image, _ original: Data?) throws -> ImageFormat? {
            ImageFormat(sniffing: try serializer.data(for: image, madeOf: original, codecs))
        }
        #expect(try format(.automatic, image, photo) == .jpeg)
        #expect(try format(.automatic, image, nil) == .png)
        #expect(try format(.automatic, .sample(alpha: 9), photo) == .png)
        #expect(try format(.png, image, photo) == .png)
        #expect(try format(.jpeg(quality: 0.5), image, nil) == .jpeg)
        #expect(try format(.original, image, nil) == .png)
        #expect(throws: DipperError.unencodable) {
            try ImageSerializer.original.data(for: image, madeOf: photo, codecs)
        }
        let small = try ImageSerializer.jpeg(quality: 0.2).data(for: image, madeOf: nil, codecs)
        let large = try ImageSerializer.jpeg(quality: 0.95).data(for: image, madeOf: nil, codecs)
        #expect(small.count < large.count)
        let own = ImageSerializer { _, _, _ throws(DipperError) in Data("mine".utf8) }
        #expect(try own.data(for: image, madeOf: nil, codecs) == Data("mine".utf8))
        #expect(throws: DipperError.unsupportedFormat) {
            try ImageSerializer.format(.heic).data(for: image, madeOf: nil, codecs)
        }
    }

    @Test("a codec of one's own is asked first")
    func ownCodec() async throws {
        struct Flag: ImageDecoder {
            let format = ImageFormat(rawValue: "flag")
            func recognizes(_ start: Data) -> Bool { start.starts(with: "FLAG".utf8) }
            func info(of data: Data) throws(DipperError) -> ImageInfo {
                ImageInfo(format: format, size: PixelSize(width: 2, height: 1))
            }
            func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
                guard
                    let image = Image(
                        size: PixelSize(width: 2, height: 1), premultiplied: [255, 0, 0, 255, 0, 0, 255, 255])
                else { throw .undecodable }
                return image
            }
        }
        let test = TestImageCache { $0.codecs.register(Flag()) }
        test.transport.script(a, [.body(Data("FLAG of Liechtenstein".utf8))])
        let image = try await test.cache.getImage(a).value
        #expect(image[0, 0] == SIMD4(255, 0, 0, 255) && image[1, 0] == SIMD4(0, 0, 255, 255))
        await test.cache.shutdown()
    }

    @Test("what a prefetch decoded stays out of memory if that is wanted")
    func prefetchMemory() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).with(\.prefetchesToMemory, false)
        _ = try await test.cache.slowGetImage(request).value
        #expect(test.cache.memoryCount == 0 && test.cache.cachedTier(for: request) == .disk)
        _ = try await test.cache.getImage(request).value
        #expect(test.cache.memoryCount == 1)
        await test.cache.shutdown()
    }

    @Test("expirations: a picture is in memory as long as its request says")
    func expiration() async throws {
        let date = ManualDate()
        let test = TestImageCache(date: date)
        test.transport.script(a, [.body(try picture.png)])
        let request = ImageRequest(a).with(\.memoryExpiration, .seconds(10))
        _ = try await test.cache.getImage(request).value
        date.advance(by: 9)
        #expect(test.cache.cachedTier(for: a) == .memory)
        date.advance(by: 2)
        #expect(test.cache.image(for: a) == nil && test.cache.cachedTier(for: a) != .memory)
        await test.cache.shutdown()
    }

    @Test("limits of memory: the least recently used picture goes first, and two warnings leave the limit as it was")
    func memoryLimit() async throws {
        let cost = picture.byteCount + 400
        let test = TestImageCache { $0.memoryLimit = cost * 20 }
        for index in 0..<30 {
            try test.cache.addImage(Image.sample(64, 48, seed: UInt8(index)), for: url("\(index)"))
        }
        #expect(test.cache.memorySize <= cost * 20 && test.cache.memoryCount >= 19)
        #expect(test.cache.image(for: url("0")) == nil && test.cache.image(for: url("29")) != nil)
        for _ in 0..<2 { test.cache.trimMemory(to: cost) }
        #expect(test.cache.memoryCount <= 1)
        for index in 0..<15 { try test.cache.addImage(picture, for: url("\(index)")) }
        #expect(test.cache.memoryCount >= 15)
        test.cache.setMemoryLimit(cost * 20, count: 5)
        #expect(test.cache.memoryCount == 5)
        test.cache.clear()
        #expect(test.cache.memoryCount == 0 && test.cache.memorySize == 0)
        await test.cache.shutdown()
    }

    @Test("flush removes what is older, in both tiers")
    func flush() async throws {
        let date = ManualDate()
        let test = TestImageCache(folder: TemporaryFolder(), date: date)
        try test.cache.addImage(picture, for: a)
        await test.cache.synchronize()
        date.advance(by: 100)
        try test.cache.addImage(picture, for: url("b"))
        await test.cache.synchronize()
        test.cache.flush(olderThan: .seconds(50))
        await test.cache.synchronize()
        #expect(!test.cache.hasImage(for: a) && test.cache.hasImage(for: url("b")))
        await test.cache.shutdown()
    }
}
