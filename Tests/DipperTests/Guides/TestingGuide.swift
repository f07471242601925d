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
}
