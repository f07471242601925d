import Foundation

/// A folder under `staging` in which one store writes files before they are renamed into place.
///
/// The store holds a lock on `staging/ID/.lock` while it is open; the kernel releases the lock of a process that ends.
/// Opening a store removes the folders whose locks are released, so that no half-written file outlives its writer. The
/// lock is on a file because network file systems lock nothing else.
final class StagingFolder: Sendable {
    /// The folder in which files are written.
    let folder: Folder
    private let all: Folder
    private let name: String
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

    /// Writes a record that will have this name in another folder.
    func write(_ name: String, body: Data, trailer: [UInt8], _ durability: Durability) throws(FileError) {
        let name = Self.stagedName(name)
        let file = try folder.createFile(name, O_WRONLY | O_TRUNC)
        var failure = FileWriting.write(body, trailer, to: file, name)
        if failure == nil, durability == .durable, fdatasync(file) != 0 { failure = FileError("fdatasync", name) }
        if close(file) != 0, failure == nil { failure = FileError("close", name) }
        if let failure {
            folder.remove(name)
            throw failure
        }
    }

    /// Moves a written record to its folder.
    func place(_ name: String, in other: Folder) throws(FileError) {
        try folder.rename(Self.stagedName(name), to: other, name)
    }

    /// Removes a written record.
    func discard(_ name: String) { folder.remove(Self.stagedName(name)) }

    /// Returns the name of a record while it is staged: the SHA-256 of a name that a custom rule made. A half-written
    /// file can be recognised by its name alone, and a custom name could be any program's.
    private static func stagedName(_ name: String) -> String {
        KeyDigest.isDigest(name) ? name : KeyDigest.sha256(CacheKey(verbatim: name))
    }

    /// Removes the folders of stores that ended without closing. Returns `true` if there were any.
    func removeAbandoned() -> Bool {
        var found = false
        for other in all.names() where other != name && Folder.isRandomName(other) {
            guard let folder = try? all.folder(other) else { continue }
            let lock = openat(folder.descriptor, Self.lockName, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
            if lock < 0, errno != ENOENT { continue }
            defer { if lock >= 0 { close(lock) } }
            if lock >= 0, flock(lock, LOCK_EX | LOCK_NB) != 0 { continue }
            Self.empty(folder)
            if lock >= 0 {
                folder.remove(Self.lockName)
                found = true
            }
            // The folder stays if another program has put files there.
            if all.removeFolder(other) { found = true }
        }
        return found
    }

    /// Removes the files with names that a store gives them here.
    private static func empty(_ folder: Folder) {
        for name in folder.names() where KeyDigest.isDigest(name) || Folder.isTemporary(name) {
            folder.remove(name)
        }
    }
}
