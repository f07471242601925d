import Foundation

/// The lock `stores/ID.lock` of one open store.
///
/// The kernel releases the lock of a process that ends. Files in `blobs` that no row names are being written while the
/// lock of their store is held, and are left over afterwards.
final class StoreLock: Sendable {
    let id: String
    private let all: Folder
    private let file: Int32
    private static let end = ".lock"

    init(in all: Folder) throws(FileError) {
        for _ in 0..<100 {
            let id = Folder.randomName()
            let file = try all.createFile(id + Self.end)
            let isLocked = flock(file, LOCK_EX | LOCK_NB) == 0
            if !isLocked, errno != EWOULDBLOCK {
                let error = FileError("flock", all.path + "/" + id + Self.end)
                close(file)
                all.remove(id + Self.end)
                throw error
            }
            // Another store that cleans up may take a lock not yet taken for abandoned and remove it.
            var status = stat()
            if isLocked, fstat(file, &status) == 0, status.st_nlink > 0 {
                (self.id, self.all, self.file) = (id, all, file)
                return
            }
            all.remove(id + Self.end)
            close(file)
        }
        throw FileError("claim", all.path, EAGAIN)
    }

    deinit {
        all.remove(id + Self.end)
        close(file)
    }

    var isThere: Bool { all.entry(id + Self.end) != nil && all.status.st_nlink > 0 }

    func isOpen(_ other: some StringProtocol) -> Bool { whileLocked(other) {} }

    func abandoned() -> [String] {
        ((try? all.listing()) ?? []).compactMap { name in
            guard name.hasSuffix(Self.end), case let other = name.dropLast(Self.end.count),
                Folder.isRandomName(other), other != id, !isOpen(other)
            else { return nil }
            return String(other)
        }
    }

    func remove(_ abandoned: [String]) {
        for other in abandoned {
            // A store that is opening finds its lock gone, and takes another identifier.
            whileLocked(other) { all.remove(other + Self.end) }
        }
    }

    /// - Returns: whether the other store is or may be open; then the closure does not run.
    @discardableResult
    private func whileLocked(_ other: some StringProtocol, _ body: () -> Void) -> Bool {
        let lock = openat(all.descriptor, "\(other)\(Self.end)", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        if lock < 0 { return errno != ENOENT }
        defer { close(lock) }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else { return true }
        body()
        return false
    }
}
