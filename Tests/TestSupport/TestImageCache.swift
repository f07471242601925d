package import Dipper
package import DipperTesting
private import Foundation

extension Image {
    /// The pixels, row by row without gaps.
    package var pixels: [UInt8] {
        withPixels { bytes in (0..<height).flatMap { bytes[$0 * rowStride..<$0 * rowStride + width * 4] } }
    }
}

/// A processor that inverts colours and counts its calls.
package struct Inverting: ImageProcessor {
    package let name: String
    package let count = Box(0)

    package init(_ name: String = "invert") { self.name = name }

    package var identifier: String { "test.\(name)" }

    package func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        count.update { $0 += 1 }
        var pixels = image.pixels
        for start in stride(from: 0, to: pixels.count, by: 4) {
            for index in start..<start + 3 { pixels[index] = pixels[start + 3] - pixels[index] }
        }
        guard let inverted = Image(size: image.size, premultiplied: pixels) else { throw .processingFailed }
        return inverted
    }
}

/// An image cache whose server, clock, wall clock, network and decoder the test controls.
package struct TestImageCache {
    package let transport = ScriptedTransport()
    package let clock = ManualClock()
    package let network = ManualNetwork()
    package let date: ManualDate
    package let decoder: CountingDecoder
    package let cache: ImageCache
    private let folder: TemporaryFolder?

    package init(
        folder: TemporaryFolder? = nil, date: ManualDate = ManualDate(), decoder: CountingDecoder = CountingDecoder(),
        _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) {
        self.date = date
        self.decoder = decoder
        self.folder = folder
        var configuration = ImageCache.Configuration(directory: folder?.url)
        configuration.data.transport = transport
        configuration.data.clock = clock
        configuration.data.networkMonitor = network
        configuration.data.memoryPressure = nil
        configuration.data.now = { [date] in date.now }
        configuration.data.callbackQueue = .inPlace
        configuration.data.logger.logLevel = .critical
        configuration.codecs.register(decoder)
        change(&configuration)
        cache = ImageCache(configuration)
    }
}
