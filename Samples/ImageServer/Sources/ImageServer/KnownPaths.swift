import Dipper
import Synchronization

/// The paths that were asked for lately, so that a signature is checked, and a path read, only once.
final class KnownPaths: Sendable {
    /// A path that may be asked for.
    final class Path: Sendable {
        let query: PictureQuery
        private let keys = Mutex<[ImageFormat: CacheKey]>([:])

        init(_ query: PictureQuery) { self.query = query }

        /// Returns the key of the picture in a format.
        func key(_ format: ImageFormat, _ make: () -> CacheKey) -> CacheKey {
            if let key = keys.withLock({ $0[format] }) { return key }
            let key = make()
            keys.withLock { $0[format] = key }
            return key
        }
    }

    private static let most = 4_096
    /// In bytes. A longer path is read each time.
    private static let longest = 512
    private let paths = Mutex<[String: Path]>([:])

    func path(_ text: Substring, _ read: (Substring) throws(Refusal) -> PictureQuery) throws(Refusal) -> Path {
        guard text.utf8.count <= Self.longest else { return Path(try read(text)) }
        let name = String(text)
        if let known = paths.withLock({ $0[name] }) { return known }
        let path = Path(try read(text))
        let old = paths.withLock { paths in
            let old = paths.count < Self.most ? [:] : exchange(&paths, with: [:])
            paths[name] = path
            return old
        }
        // The others do not wait until these are freed.
        withExtendedLifetime(old) {}
        return path
    }
}
