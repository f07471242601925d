// Each test needs these, so that they need not be imported beside this module. `Dipper` exports `DipperData`.
@_exported public import Dipper
@_exported public import DipperTesting
@_exported public import Foundation

/// A cache of data whose server, clock, wall clock and network the test controls.
package struct TestCache {
    package let transport = ScriptedTransport()
    package let clock = ManualClock()
    package let network = ManualNetwork()
    package let date: ManualDate
    package let cache: DataCache
    private let folder: TemporaryFolder?

    package init(
        folder: TemporaryFolder? = nil, date: ManualDate = ManualDate(), sink: (any EventSink)? = nil,
        _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) {
        self.date = date
        self.folder = folder
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.use(transport, clock, network, date)
        if let sink { configuration.eventSinks.append(sink) }
        change(&configuration)
        cache = DataCache(configuration)
    }

    /// Ends the cache, and returns a new one on the same folder at the same date.
    package func reopened() async -> TestCache {
        await cache.shutdown()
        return TestCache(folder: folder, date: date)
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
        configuration.data.use(transport, clock, network, date)
        configuration.codecs.register(decoder)
        change(&configuration)
        cache = ImageCache(configuration)
    }

    /// Shuts the cache down, and opens its folder in another one with the same wall clock.
    package func reopened(
        decoder: CountingDecoder = CountingDecoder(), _ change: (inout ImageCache.Configuration) -> Void = { _ in }
    ) async -> TestImageCache {
        await cache.shutdown()
        return TestImageCache(folder: folder, date: date, decoder: decoder, change)
    }
}

extension DataCache.Configuration {
    /// Sets what a test controls, without the system's memory pressure, and with hooks that are called in place.
    fileprivate mutating func use(
        _ transport: ScriptedTransport, _ clock: ManualClock, _ network: ManualNetwork, _ date: ManualDate
    ) {
        self.transport = transport
        self.clock = clock
        networkMonitor = network
        memoryPressure = nil
        now = { date.now }
        callbackQueue = .inPlace
        logger.logLevel = .critical
    }
}

/// Returns a URL whose host does not exist.
package func url(_ path: String) -> URL { URL(string: "http://host.test/\(path)").unsafelyUnwrapped }

extension Date {
    /// The date in the format of HTTP fields (RFC 9110, section 5.6.7).
    package var httpText: String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: self)
    }
}

extension FetchTask {
    package var error: DipperError? {
        get async { await result.error }
    }

    /// Waits for the first event of the task that meets the condition; `false` if the task ends without one.
    package func reaches(_ condition: @escaping @Sendable (Event) -> Bool) async -> Bool {
        for await event in events where condition(event) { return true }
        return false
    }
}

extension Image {
    /// The pixels, row by row without gaps.
    package var pixels: [UInt8] {
        withPixels { bytes in (0..<height).flatMap { bytes[$0 * rowStride..<$0 * rowStride + width * 4] } }
    }
}

extension FrameDecoder {
    package func rest() throws(DipperError) -> [AnimationFrame] {
        var all = [AnimationFrame]()
        while let frame = try next() { all.append(frame) }
        return all
    }
}

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
