@testable import Dipper
import DipperTesting
import Foundation
import TestSupport

/// The box of the tests. Dipper has a type of the same name, for the boxes of ISO media files.
typealias Box = TestSupport.Box

/// A processor that inverts colours and counts its calls.
struct Inverting: ImageProcessor {
    let name: String
    let count = Box(0)

    init(_ name: String = "invert") { self.name = name }

    var identifier: String { "test.\(name)" }

    func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
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
struct TestImageCache {
    let transport = ScriptedTransport()
    let clock = ManualClock()
    let network = ManualNetwork()
    let date: ManualDate
    let decoder: CountingDecoder
    let cache: ImageCache
    private let folder: TemporaryFolder?

    init(
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
