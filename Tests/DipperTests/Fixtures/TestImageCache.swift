@testable import Dipper
import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

/// The box of the tests. Dipper has a type of the same name, for the boxes of ISO media files.
typealias Box = TestSupport.Box

/// A decoder that counts decodes and can hold them up.
final class CountingDecoder: ImageDecoder {
    private let decoder: any ImageDecoder
    private let count = Mutex(0)
    private let gate = DispatchSemaphore(value: 0)
    private let isHeld: Bool
    /// The errors of the next decodes; the test sets them before the first decode that must fail.
    let failures = Box<[DipperError]>([])

    init(_ decoder: any ImageDecoder = PNGDecoder(), isHeld: Bool = false) {
        self.decoder = decoder
        self.isHeld = isHeld
    }

    var format: ImageFormat { decoder.format }
    var decodes: Int { count.withLock { $0 } }

    /// Lets one held decode continue, or the next one.
    func release() { gate.signal() }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        count.withLock { $0 += 1 }
        if isHeld { gate.wait() }
        var failure: DipperError?
        failures.update { if !$0.isEmpty { failure = $0.removeFirst() } }
        if let failure { throw failure }
        return try decoder.decode(data, options)
    }
}

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

extension Image {
    /// Returns a picture whose pixels follow from the seed.
    static func sample(_ width: Int = 16, _ height: Int = 12, seed: UInt8 = 1, alpha: UInt8 = 255) -> Image {
        let pixels = (0..<width * height).flatMap { index -> [UInt8] in
            let value = UInt8((index &* 7 &+ Int(seed) &* 31) & 0xFF)
            return [min(value, alpha), min(value &+ 40, alpha), min(seed, alpha), alpha]
        }
        return Image(size: PixelSize(width: width, height: height), premultiplied: pixels).unsafelyUnwrapped
    }

    var png: Data { get throws { try CodecRegistry.standard.encode(self, as: .png) } }
}

extension ImageTask {
    /// The error with which the task ends; `nil` if it succeeds.
    var error: DipperError? {
        get async {
            do throws(DipperError) {
                _ = try await value
                return nil
            } catch {
                return error
            }
        }
    }
}
