import Foundation

/// A picture among the program's files, looked for when its bytes are asked for.
struct NamedProvider: DataProvider {
    /// The most that is read, in bytes.
    private static let maximumSize = 1 << 30

    let cacheKey: CacheKey
    private let name: String
    /// Where it may be; the first that there is counts.
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

    /// The bytes, read on the caller's thread; `nil` if they cannot be had.
    func read() -> Data? { (try? FileProvider.read(firstOf: files, upTo: Self.maximumSize).get()) ?? nil }
}
