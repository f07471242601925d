import Foundation

/// A provider of a picture among the program's own files. It looks for the file when the bytes are requested.
struct NamedProvider: DataProvider {
    /// In bytes.
    private static let maximumSize = 1 << 30

    let cacheKey: CacheKey
    private let name: String
    /// The first one that exists is read.
    private let files: [URL]

    init(_ name: String, files: [URL]) {
        cacheKey = CacheKey("named:\(name)")
        self.name = name
        self.files = files
    }

    var isLocal: Bool { true }

    func data() async throws -> Data {
        guard let bytes = try await FileProvider.data(ofFirst: files, upTo: Self.maximumSize) else {
            throw DipperError.unreadable.with(detail: "there is no picture named '\(name)'")
        }
        return bytes
    }

    /// Reads on the caller's thread; `nil` if there is no file, or if it cannot be read.
    func read() -> Data? { try? FileProvider.read(firstOf: files, upTo: Self.maximumSize) }
}

extension ImageRequest {
    /// Creates a request for a picture among the program's own files, which is found as by
    /// ``ImageCache/getImage(named:)`` in the folders of a cache.
    ///
    /// ```swift
    /// let logo = ImageRequest(named: "logo").processed(by: .circle)
    /// cache.getImage(logo) { image in view.show(image) }
    /// ```
    public init(named name: String, in cache: ImageCache = .shared) {
        self.init(NamedProvider(name, files: cache.configuration.resources(named: name)))
    }
}
