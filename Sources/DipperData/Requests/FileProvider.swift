import Foundation

/// A provider of the bytes of a local file. The cache keeps the bytes that it has read: to read a changed file again,
/// use a key from ``key(of:)``, `removeData` or ``DataRequest/CachePolicy/ignoreCache``.
///
/// ```swift
/// var provider = FileProvider(URL(fileURLWithPath: "/usr/share/kiosk/menu.json"))
/// provider.maximumSize = 1 << 20
/// let menu = try await cache.getData(DataRequest(provider)).value
/// ```
public struct FileProvider: DataProvider {
    /// The URL of the file.
    public let file: URL
    /// The largest size that is read, in bytes. A larger file is refused.
    public var maximumSize = 1 << 30
    public let cacheKey: CacheKey
    var isOfURL = false

    /// Creates a provider of a file. By default the bytes are cached by the file's URL.
    public init(_ file: URL, key: CacheKey? = nil) {
        self.file = file
        cacheKey = key ?? CacheKey(file)
    }

    public var isLocal: Bool { true }

    /// Returns a key made of a file's URL, size and modification time, which are read on a background thread. With this
    /// key a changed file counts as another one. If the file cannot be read, the key is that of the URL.
    ///
    /// ```swift
    /// let photo = FileProvider(file, key: await FileProvider.key(of: file))
    /// let data = try await cache.getData(DataRequest(photo)).value
    /// ```
    public static func key(of file: URL) async -> CacheKey {
        let key = CacheKey(file.standardizedFileURL)
        let state = try? await onReader { () throws(DipperError) in
            var status = stat()
            guard file.isFileURL, stat(file.path, &status) == 0 else { throw failure(file) }
            return "\(status.st_size) \(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
        }
        // A URL has no line break, so the next line is not a part of it.
        return state.map { CacheKey("\(key.string)\n\($0)") } ?? key
    }

    /// Returns the file's bytes.
    /// - Throws: ``DipperError/unreadable`` if the file is not a regular file or cannot be read,
    ///   ``DipperError/tooLarge`` if it is larger than ``maximumSize``.
    public func data() async throws -> Data {
        try await Self.onReader { [file, maximumSize] () throws(DipperError) in
            try Self.read(file, upTo: maximumSize)
        }
    }

    /// Returns the bytes of the first file that can be read, or `nil`. Throws ``DipperError/tooLarge`` above the limit.
    package static func data(ofFirst files: [URL], upTo limit: Int) async throws(DipperError) -> Data? {
        try await onReader { () throws(DipperError) in try read(firstOf: files, upTo: limit) }
    }

    static func onReader<Value: Sendable>(
        _ read: @escaping @Sendable () throws(DipperError) -> Value
    ) async throws(DipperError) -> Value {
        let result: Result<Value, DipperError> = await withCheckedContinuation { continuation in
            let isRunning = readers.run { continuation.resume(returning: Result(catching: read)) }
            if !isRunning { continuation.resume(returning: .failure(.noThread)) }
        }
        return try result.get()
    }

    /// Does the same on the caller's thread.
    package static func read(firstOf files: [URL], upTo limit: Int) throws(DipperError) -> Data? {
        for file in files {
            do throws(DipperError) {
                return try read(file, upTo: limit)
            } catch {
                if error == .tooLarge { throw error }
            }
        }
        return nil
    }

    /// Reading blocks and decoding takes time, and Swift's cooperative threads must not.
    private static let readers = Workers(name: "dipper-file", threads: 2)

    private static func read(_ file: URL, upTo limit: Int) throws(DipperError) -> Data {
        guard file.isFileURL else { throw .unreadable.with(detail: "'\(file)' is no file") }
        // A pipe without a writer must not block the thread.
        let descriptor = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw failure(file) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(file) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw .unreadable.with(detail: "'\(file.path)' is no regular file")
        }
        guard status.st_size <= limit else { throw .tooLarge.with(detail: "\(status.st_size) bytes") }
        var data = Data(count: Int(status.st_size))
        var count = 0
        while count < data.count {
            let read = data.withUnsafeMutableBytes { bytes in
                pread(descriptor, bytes.baseAddress.map { $0 + count }, bytes.count - count, off_t(count))
            }
            if read < 0, errno == EINTR { continue }
            guard read >= 0 else { throw failure(file) }
            // The file has become shorter meanwhile.
            if read == 0 { break }
            count += read
        }
        return data.prefix(count)
    }

    private static func failure(_ file: URL) -> DipperError {
        .unreadable.with(detail: "'\(file.path)': \(String(cString: strerror(errno)))")
    }
}

extension URL {
    var localProvider: (any DataProvider)? {
        if isFileURL {
            var provider = FileProvider(self)
            provider.isOfURL = true
            return provider
        }
        guard isDataURL else { return nil }
        // `URL` escapes the spaces before the content.
        let type = absoluteString.prefix { $0 != "," }
        let content = absoluteString[type.endIndex...]
        return DataURLProvider(type.replacingOccurrences(of: "%20", with: " ") + content, key: CacheKey(self))
    }
}
