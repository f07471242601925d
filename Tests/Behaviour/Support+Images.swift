import Dispatch
import TestSupport
import Testing

extension TestImageCache {
    /// Uses a cache, lets go of it, and returns what is held of it when it has gone.
    static func released<Held>(
        _ folder: TemporaryFolder?, after use: (TestImageCache) async throws -> Held
    ) async throws -> Held {
        let isReleased = Box(false)
        func make() -> TestImageCache {
            let canary = Canary(isReleased)
            return TestImageCache(folder: folder) { $0.data.observe { _ in withExtendedLifetime(canary) {} } }
        }
        let held = try await use(make())
        try await isReleased.wait { $0 }
        return held
    }

    /// Scripts the answers for a URL: pictures as PNG files, one for each attempt.
    func script(_ url: URL, _ pictures: Image..., headers: HTTPHeaders = [:]) throws {
        transport.script(url, try pictures.map { try .image($0, headers: headers) })
    }

    /// Makes a call, and returns its task and the next transfer.
    func begin(
        _ source: some ImageRequestConvertible, in queue: FetchQueue = .fast
    ) async throws -> (ImageTask, ScriptedTransfer) {
        let task = queue == .fast ? cache.getImage(source) : cache.slowGetImage(source)
        return (task, try await transport.nextTransfer())
    }

    /// Gets a picture, and returns it when the cache has nothing left to do.
    @discardableResult
    func load(_ source: some ImageRequestConvertible) async throws -> Image {
        let image = try await cache.getImage(source).value
        await cache.idle()
        return image
    }

    func pixels(_ source: some ImageRequestConvertible) async throws -> [UInt8] {
        try await cache.getImage(source).value.pixels
    }

    func source(_ source: some ImageRequestConvertible) async throws -> ResponseSource {
        try await cache.getImage(source).response.source
    }

    func error(_ source: some ImageRequestConvertible) async -> DipperError? { await cache.getImage(source).error }

    /// Empties memory when everything is on disk.
    func forgetMemory() async {
        await cache.idle()
        cache.clearMemory()
    }

    func expectEmpty(_ place: SourceLocation = #_sourceLocation) async {
        await cache.idle()
        let counts = [cache.memoryCount, cache.data.memoryCount, cache.data.diskCount]
        #expect(counts == [0, 0, 0], sourceLocation: place)
    }

    /// Returns when the cache has dealt with all earlier calls, by an urgent call for bytes that passes through it.
    func passThrough() async throws {
        let marker = url("marker/\(UUID().uuidString)")
        transport.script(marker, [.body(Data("x".utf8))])
        _ = try await cache.data.getData(marker).value
    }
}

extension ImageTask {
    /// Returns when the call has looked at the disk and waits for a transfer or a decode. Several threads look at the
    /// disk, so that a later look may end first.
    func hasLooked() async throws {
        while state == .waiting { try await Task.sleep(for: .milliseconds(1)) }
    }
}

extension ImageRequest {
    var inverted: ImageRequest { processed(by: Inverting()) }
}

extension Image {
    var inverted: [UInt8] {
        get throws { try Inverting().process(self, ProcessingContext(limits: DecodeLimits())).pixels }
    }
}

extension Door {
    /// A serializer that waits at the door before it writes a picture as PNG.
    var serializer: ImageSerializer {
        ImageSerializer { [self] image, _, codecs throws(DipperError) in
            pass()
            return try codecs.encode(image, as: .png)
        }
    }
}

/// A decoder that holds each decode, and watches the order and the number of those that run.
final class WatchedDecoder: ImageDecoder {
    private let decoder: CountingDecoder
    /// The bodies, as text, in the order in which their decodes began.
    let began = Box<[String]>([])
    private let running = Box((now: 0, most: 0))

    init(_ decoder: CountingDecoder = CountingDecoder(isHeld: true)) { self.decoder = decoder }

    func makeTest(threads: Int, _ change: (inout ImageCache.Configuration) -> Void = { _ in }) -> TestImageCache {
        TestImageCache {
            $0.codecs.register(self)
            $0.decodingThreads = threads
            change(&$0)
        }
    }

    var most: Int { running.value.most }
    func release() { decoder.release() }
    func releaseAll() { decoder.releaseAll() }

    var format: ImageFormat { decoder.format }
    func recognizes(_ start: Data) -> Bool { decoder.recognizes(start) }
    func info(of data: Data) throws(DipperError) -> ImageInfo { try decoder.info(of: data) }
    func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        max(data.count, try decoder.memory(of: data, options))
    }

    func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        running.update { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        defer { running.update { $0.now -= 1 } }
        began.update { $0.append(String(decoding: data.prefix(40), as: UTF8.self)) }
        return try decoder.decode(data, options)
    }
}

/// A display with its binding, on a queue that the test can use.
final class Screen: Sendable {
    let display = RecordingDisplay()
    let queue = DispatchQueue(label: "test.display")
    let binding: ImageBinding
    let ends = Box<[String]>([])

    init(_ cache: ImageCache, options: DisplayOptions = DisplayOptions()) {
        binding = ImageBinding(display, cache: cache, queue: .dispatch(queue), options: options)
    }

    func perform(_ body: @Sendable (ImageBinding) -> Void) { queue.sync { body(binding) } }

    func set(
        _ request: ImageRequest?, placeholder: DisplayOptions.Placeholder? = .color(.black),
        options: DisplayOptions? = nil
    ) {
        queue.sync {
            binding.setImage(request, placeholder: placeholder, options: options) { [ends] result in
                ends.update { $0.append(result.text) }
            }
        }
    }

    /// The calls of the display as text, after all work already on the queue has run.
    var told: [String] { queue.sync { display.descriptions } }

    func waits(for start: String) async throws { try await display.nextEvent { $0.description.hasPrefix(start) } }

    func waits(forEnds count: Int) async throws { try await ends.wait { $0.count >= count } }
}

extension Result<ImageResponse, DipperError> {
    var text: String {
        switch self {
        case .success(let response): "\(response.image.size)"
        case .failure(let error): error.shortDescription
        }
    }
}

enum ProgressivePhoto {
    /// The numbers of bytes after which a better preview can be shown.
    static let previewLengths: [Int] = {
        var parser = ProgressiveJPEG()
        return (1...file.count).filter { parser.preview(in: file.prefix($0)) != nil }
    }()

    static let file = Data(base64Encoded: base64) ?? Data()
    private static let base64 = """
        /9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7Pj4+JS5ESU\
        M8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozv/wgARCAAY\
        ACADASIAAhEBAxEB/8QAGgAAAgIDAAAAAAAAAAAAAAAAAAQDBQECBv/EABgBAAIDAAAAAAAAAAAAAAAAAAMFAgQG/9oADAMBAAIQAxAAAAHmWX\
        HojrZ7TIHWjILMaxOFZ1//xAAcEAADAAEFAAAAAAAAAAAAAAAAAQMCERITISL/2gAIAQEAAQUCUzGYpimKZOfXH5UxTMcNDY2KZ//EABkRAAID\
        AQAAAAAAAAAAAAAAAAADAQIEEf/aAAgBAwEBPwFWjhn09E3kReT/xAAbEQABBQEBAAAAAAAAAAAAAAABAAIDERIjBP/aAAgBAgEBPwGHq/Nr18\
        X5tGRwNhSSOcbJX//EABQQAQAAAAAAAAAAAAAAAAAAADD/2gAIAQEABj8CT//EABoQAAIDAQEAAAAAAAAAAAAAAAABEDFhUUH/2gAIAQEAAT8h\
        yGukNVoyi5vR8osh1BWDI//aAAwDAQACAAMAAAAQvICj/8QAFhEBAQEAAAAAAAAAAAAAAAAAEQAB/9oACAEDAQE/EDMTNttgC//EABoRAQEBAQ\
        ADAAAAAAAAAAAAAAERAGEhsdH/2gAIAQIBAT8QQbjEkoS+/mpmPNWJe+d//8QAHBAAAgIDAQEAAAAAAAAAAAAAAREAYRAhUTGx/9oACAEBAAE/\
        EIiiKTQixofRhUwTn1Am4X2V4RZ6uoIA3ArC/9k=
        """
}
