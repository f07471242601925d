import Foundation

/// The folder `staging/ID` of one open store, whose name is the identifier of the store.
///
/// The store holds a lock on `staging/ID/.lock` while it is open; the kernel releases the lock of a process that ends.
/// Files in `blobs` that a store has written and no row names are being written as long as its lock is held, and are
/// left over from then on. The lock is on a file because network file systems lock nothing else.
final class StagingFolder: Sendable {
    /// The folder, in which files are written before they get their names elsewhere.
    let folder: Folder
    let name: String
    private let all: Folder
    private let lock: Int32
    private static let lockName = ".lock"

    /// Creates a folder with a random name and locks it.
    /// - Throws: `FileError` if the folder cannot be written, or if its file system has no locks.
    init(in all: Folder) throws(FileError) {
        for _ in 0..<100 {
            let name = Folder.randomName()
            guard mkdirat(all.descriptor, name, 0o700) == 0 else {
                if errno == EEXIST { continue }
                throw FileError("mkdir", all.path + "/" + name)
            }
            // Until the folder is locked, another store that cleans up may take it for abandoned and remove it.
            guard let folder = try all.folder(name) else { continue }
            let lock = openat(
                folder.descriptor, Self.lockName, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
            if lock < 0, errno == ENOENT { continue }
            guard lock >= 0 else {
                let error = FileError("create", folder.path + "/" + Self.lockName)
                all.removeFolder(name)
                throw error
            }
            let isLocked = flock(lock, LOCK_EX | LOCK_NB) == 0
            if !isLocked, errno != EWOULDBLOCK {
                let error = FileError("flock", folder.path + "/" + Self.lockName)
                close(lock)
                folder.remove(Self.lockName)
                all.removeFolder(name)
                throw error
            }
            var status = stat()
            if isLocked, fstat(lock, &status) == 0, status.st_nlink > 0 {
                (self.folder, self.all, self.name, self.lock) = (folder, all, name, lock)
                return
            }
            close(lock)
        }
        throw FileError("claim", all.path, EAGAIN)
    }

    deinit {
        Self.empty(folder)
        folder.remove(Self.lockName)
        all.removeFolder(name)
        close(lock)
    }

    /// Returns whether another store with this identifier is open.
    func isOpen(_ other: some StringProtocol) -> Bool {
        guard let folder = try? all.folder(String(other)) else { return false }
        return Self.whileLocked(folder) {} == nil
    }

    /// Returns the identifiers of stores that ended without closing: their processes were killed, or the power failed.
    func abandoned() -> [String] {
        all.names().filter { $0 != name && Folder.isRandomName($0) && !isOpen($0) }
    }

    /// Removes the folders of stores that ended without closing.
    func remove(_ abandoned: [String]) {
        for other in abandoned {
            guard let folder = try? all.folder(other) else { continue }
            // A store that is only just opening finds that its lock is gone, and takes another identifier.
            Self.whileLocked(folder) {
                Self.empty(folder)
                folder.remove(Self.lockName)
            }
            // The folder stays if it is locked, or if another program has put files there.
            all.removeFolder(other)
        }
    }

    /// Runs a closure while this process holds the lock of a folder, if the folder has one.
    /// - Returns: `nil`, and the closure does not run, if a store holds the lock.
    @discardableResult
    private static func whileLocked(_ folder: Folder, _ body: () -> Void) -> Void? {
        let lock = openat(folder.descriptor, lockName, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
        if lock < 0, errno != ENOENT { return nil }
        defer { if lock >= 0 { close(lock) } }
        guard lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0 else { return nil }
        return body()
    }

    /// Removes the files with names that a store gives them here.
    private static func empty(_ folder: Folder) {
        for name in folder.names() where Folder.isTemporary(name) { folder.remove(name) }
    }
}
