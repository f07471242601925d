import Dipper
import DipperTesting
import Foundation
import Testing

enum TestingGuide {
    static func pictures(_ url: URL) async throws {
        let transport = ScriptedTransport()
        try transport.script(url, [.image(.filled(with: .black, 40, 30))])
        var configuration = ImageCache.Configuration()
        configuration.data.transport = transport
        configuration.data.networkMonitor = ManualNetwork()
        let cache = ImageCache(configuration)

        let image = try await cache.getImage(url).value
        #expect(image[0, 0] == Color.black.premultiplied && transport.transfers.count == 1)
    }

    static func settings(_ transport: ScriptedTransport?) -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration()
        configuration.data.transport = transport
        configuration.data.networkMonitor = ManualNetwork()
        return configuration
    }

    static func failures(_ url: URL) async throws -> Image {
        let transport = ScriptedTransport()
        var configuration = settings(transport)
        try transport.script(url, [.status(503), .image(.sample())])
        let clock = ManualClock()
        configuration.data.clock = clock
        let cache = ImageCache(configuration)

        let task = cache.getImage(url)
        try await clock.waitForSleepers(1)  // refused once: it waits for its back-off
        clock.advance(by: .seconds(60))
        let image = try await task.value
        await cache.shutdown()
        return image
    }

    static func displays(
        _ url: URL, _ transport: ScriptedTransport, _ cache: ImageCache, _ picture: Image
    ) async throws {
        let display = RecordingDisplay()
        let binding = ImageBinding(display, cache: cache, queue: .inPlace)
        binding.setImage(url, placeholder: .color(.black))
        #expect(display.descriptions == ["placeholder 000000ff", "activity"])

        try await transport.nextTransfer().finish(with: try picture.png)
        #expect(try await display.nextImage().size == picture.size)
        withExtendedLifetime(binding) {}
    }

    static func decoders(_ url: URL) async throws {
        let transport = ScriptedTransport()
        var configuration = settings(transport)
        let decoder = CountingDecoder(making: PixelSize(width: 4_000, height: 3_000), isHeld: true)
        configuration.codecs.register(decoder)
        let cache = ImageCache(configuration)
        transport.script(url, [.body(Data("any bytes".utf8))])

        let request = ImageRequest(url).processed(by: .downsample(width: 400, height: 400))
        let first = cache.getImage(request)
        try await decoder.waitForDecodes(1)  // the bytes have arrived
        let second = cache.getImage(request)  // waits for the same decode
        decoder.releaseAll()
        for task in [first, second] { #expect(try await task.value.size == PixelSize(width: 400, height: 300)) }
        #expect(decoder.decodes == 1)
    }

    // MARK: DipperTesting

    static func parts(_ cache: DataCache, _ url: URL, _ transport: ScriptedTransport) async throws {
        let received = WatchedState<[Int]>([])
        let task = cache.getData(url).onProgress { progress in received.update { $0.append(progress.received) } }
        let transfer = try await transport.nextTransfer()
        let fields: HTTPHeaders = ["ETag": "\"1\"", "Content-Length": "4"]
        transfer.hold(TransferResponse(headers: fields, body: Data("he".utf8)))  // what has arrived
        transfer.send(progress: 2, of: 4)  // and how much it is
        try await cache.waitForHooks()
        #expect(received.value == [2])
        transfer.finish(with: Data("here".utf8), headers: fields)
        #expect(try await task.value(within: .seconds(5)) == Data("here".utf8))
    }

    static func offline(_ url: URL) async throws {
        let transport = ScriptedTransport()
        let network = ManualNetwork(isUp: false)
        let clock = ManualClock()
        let date = ManualDate()
        var configuration = DataCache.Configuration()
        configuration.transport = transport  // the server
        configuration.networkMonitor = network  // whether there is a network
        configuration.clock = clock  // back-offs, time limits, the return of the network
        configuration.now = { date.now }  // how old an entry is
        let cache = DataCache(configuration)

        let texts = WatchedState<[String]>([])
        let task = cache.getData(url)
            .onFail { error, isFatal in texts.update { $0.append(isFatal ? "failed" : "waits") } }
            .then { data in texts.update { $0.append("\(data.count) bytes") } }
        try await cache.waitForParked()
        #expect(texts.value == ["waits"])

        network.isUp = true
        try await clock.waitForSleepers(1, dueWithin: .seconds(5))  // the cache has heard of it
        clock.advance(by: .seconds(5))  // the call goes on
        try await transport.nextTransfer().finish(with: Data("here".utf8))
        #expect(try await task.value(within: .seconds(5)) == Data("here".utf8))
        #expect(texts.value == ["waits", "4 bytes"])

        date.advance(by: 8 * 86_400)  // the entry is out of date
        network.isUp = false
        #expect(try await cache.getData(url).response.source == .stale)
    }

    static func restart(_ url: URL, _ folder: URL) async throws {
        let network = ManualNetwork()
        func cache(_ transport: ScriptedTransport) -> DataCache {
            var configuration = DataCache.Configuration(directory: folder)
            configuration.transport = transport
            configuration.networkMonitor = network
            return DataCache(configuration)
        }
        let (before, after) = (ScriptedTransport(), ScriptedTransport())
        before.script(url, [.body(Data("here".utf8))])
        let first = cache(before)
        _ = try await first.getData(url).value(within: .seconds(5))
        await first.shutdown()  // the program ends

        network.isUp = false
        let second = cache(after)  // and starts without a network
        #expect(await second.data(for: url) == Data("here".utf8) && after.transfers.isEmpty)
        await second.shutdown()
    }
}
