import CSQLite
import Foundation
import ProcessShims

/// A folder, held by its descriptor, from which its files and subfolders are reached. No symbolic link in it is
/// followed. Files of other users count as absent; opening another user's subfolder throws.
final class Folder: Sendable {
    let descriptor: Int32
    /// SQLite opens files by their paths.
    let path: String
    /// Asked for once, not for each file.
    private let user = geteuid()

    /// The path may lead through symbolic links.
    init(path: String) throws(FileError) {
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        self.path = path
        guard descriptor >= 0 else { throw FileError("open", path) }
    }

    private init(descriptor: Int32, path: String) {
        self.descriptor = descriptor
        self.path = path
    }

    deinit { close(descriptor) }

    var status: stat {
        var status = stat()
        fstat(descriptor, &status)
        return status
    }

    var isUsers: Bool { status.st_uid == user }

    /// - Throws: `FileError` for a link, a file, or another user's folder.
    func folder(_ name: String) throws(FileError) -> Folder? {
        // mutant FolderSafety: `RY | O_NOFOLLOW | O_CLOEXEC` => `RY | O_CLOEXEC`
        let descriptor = openat(self.descriptor, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        let path = path + "/" + name
        guard descriptor >= 0 else { throw FileError("open", path) }
        let folder = Folder(descriptor: descriptor, path: path)
        guard folder.isUsers else { throw FileError("open", path, EPERM) }
        return folder
    }

    func makeFolder(_ name: String) throws(FileError) -> Folder {
        guard mkdirat(descriptor, name, 0o700) == 0 || errno == EEXIST else {
            throw FileError("mkdir", path + "/" + name)
        }
        guard let folder = try folder(name) else { throw FileError("open", path + "/" + name, ENOENT) }
        return folder
    }

    /// A regular file of the user in this folder or a subfolder. The caller closes the descriptor.
    func openFile(_ name: String) throws(FileError) -> (descriptor: Int32, size: Int)? {
        // Opening or reading another kind of file could block forever.
        var file = dipper_open_below(descriptor, name)
        if file < 0, errno == ENOSYS || errno == EPERM {
            let parts = name.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            if parts.count == 2 { return try folder(parts[0])?.openFile(parts[1]) }
            guard parts.count == 1 else { return nil }
            file = openat(descriptor, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        }
        guard file >= 0 else {
            if [ENOENT, ELOOP, ENOTDIR, EXDEV].contains(errno) { return nil }
            throw FileError("open", path + "/" + name)
        }
        var status = stat()
        guard fstat(file, &status) == 0, isUsersFile(status) else {
            close(file)
            return nil
        }
        return (file, Int(status.st_size))
    }

    /// - Returns: `false`, and nothing is written, if the file is not there or does not have `count` bytes.
    func append(_ pieces: [Data], to name: String, at count: Int) throws(FileError) -> Bool {
        let file: Int32
        if count == 0 {
            file = try createFile(name)
        } else {
            file = openat(descriptor, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
            if file < 0, errno == ENOENT { return false }
            guard file >= 0 else { throw FileError("open", path + "/" + name) }
        }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0, isUsersFile(status), status.st_size == count else { return false }
        for piece in pieces { if let failure = write(piece, to: file, name) { throw failure } }
        return true
    }

    // mutant FolderSafety: `mode_t = 0o600)` => `mode_t = 0o666)`
    func createFile(_ name: String, _ mode: mode_t = 0o600) throws(FileError) -> Int32 {
        let file = openat(descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
        guard file >= 0 else { throw FileError("create", path + "/" + name) }
        return file
    }

    func file(_ name: String) -> stat? {
        guard let status = entry(name), isUsersFile(status) else { return nil }
        return status
    }

    /// A file, folder or link, which is not followed.
    func entry(_ name: String) -> stat? {
        var status = stat()
        return fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status : nil
    }

    private func isUsersFile(_ status: stat) -> Bool {
        status.st_mode & S_IFMT == S_IFREG && status.st_uid == user
    }

    @discardableResult
    func remove(_ name: String) -> Bool { unlinkat(descriptor, name, 0) == 0 }

    /// Creates an empty file without opening it. Has no effect if the name is taken.
    func makeEmptyFile(_ name: String) throws(FileError) {
        guard mknodat(descriptor, name, S_IFREG | 0o600, 0) == 0 || errno == EEXIST else {
            throw FileError("mknod", path + "/" + name)
        }
        try flush()
    }

    /// Creates a file that is on the device when this returns. Has no effect if the name is taken. The file appears
    /// whole, except on file systems that have no hard links and can only replace files.
    func makeFile(_ name: String, _ contents: Data) throws(FileError) {
        let temporary = "\(Self.temporaryPrefix)\(Self.randomName())"
        try writeFile(temporary, contents, isFlushed: true, tolerating: EINVAL)
        defer { remove(temporary) }
        if linkat(descriptor, temporary, descriptor, name, 0) != 0, errno != EEXIST {
            guard errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK else {
                throw FileError("link", path + "/" + name)
            }
            if dipper_rename_unless_taken(descriptor, temporary, descriptor, name) != 0, errno != EEXIST {
                guard errno == EINVAL || errno == ENOSYS else { throw FileError("rename", path + "/" + name) }
                if entry(name) == nil { try writeFile(name, contents, isFlushed: true, tolerating: EINVAL) }
            }
        }
        try flush()
    }

    /// - Parameter code: the `errno` that a file system without flushing gives, if that is no failure.
    func writeFile(
        _ name: String, _ bytes: Data, mode: mode_t = 0o600, isFlushed: Bool, tolerating code: Int32? = nil
    ) throws(FileError) {
        let file = try createFile(name, mode)
        var failure = write(bytes, to: file, name)
        if failure == nil, isFlushed, fdatasync(file) != 0, errno != code { failure = FileError("fdatasync", name) }
        if close(file) != 0, failure == nil { failure = FileError("close", name) }
        if let failure {
            remove(name)
            throw failure
        }
    }

    /// Puts a file into a folder of the program's, in place of a file or link that is there. The file appears whole or
    /// not at all.
    /// - Parameter share: makes a file of this name that has the bytes; `false` if they are to be written.
    func place(
        _ name: String, _ bytes: Data, isFlushed: Bool, sharing share: (String) -> Bool
    ) throws(FileError) {
        if let kind = entry(name)?.st_mode, ![S_IFREG, S_IFLNK].contains(kind & S_IFMT) {
            throw FileError("rename", path + "/" + name, EEXIST)
        }
        let temporary = "\(Self.temporaryPrefix)\(Self.randomName())"
        let isShared = share(temporary)
        if !isShared { try writeFile(temporary, bytes, mode: 0o666, isFlushed: isFlushed, tolerating: EINVAL) }
        // Nothing is renamed if both are names of one file.
        defer { remove(temporary) }
        if isShared, isFlushed {
            guard let (file, _) = try openFile(temporary) else { throw FileError("open", path + "/" + name, EIO) }
            defer { close(file) }
            guard fdatasync(file) == 0 else { throw FileError("fdatasync", path + "/" + name) }
        }
        guard renameat(descriptor, temporary, descriptor, name) == 0 else {
            throw FileError("rename", path + "/" + name)
        }
        if isFlushed { try flush() }
    }

    private func write(_ bytes: Data, to file: Int32, _ name: String) -> FileError? {
        bytes.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = Glibc.write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if written >= 0 {
                    rest = rest.dropFirst(written)
                } else if errno != EINTR {
                    return FileError("write", name)
                }
            }
            return nil
        }
    }

    func readFile(_ name: String, atMost limit: Int) throws(FileError) -> Data? {
        guard let (file, whole) = try openFile(name) else { return nil }
        defer { close(file) }
        let size = min(whole, limit)
        // Freed, a mapping goes back to the system, and a large block of malloc may stay in the thread's arena.
        let isMapped = size > 2 * PageChunks.largest
        let memory = isMapped ? PageChunks.map(size) : malloc(max(size, 1))
        guard let bytes = memory else { throw FileError("malloc", name) }
        let free: Data.Deallocator = isMapped ? .custom { bytes, _ in munmap(bytes, size) } : .free
        var count = 0
        while count < size {
            let read = Glibc.read(file, bytes + count, size - count)
            if read == 0 { break }
            if read < 0 {
                if errno == EINTR { continue }
                let error = FileError("read", name)
                _ = Data(bytesNoCopy: bytes, count: size, deallocator: free)
                throw error
            }
            count += read
        }
        return Data(bytesNoCopy: bytes, count: count, deallocator: free)
    }

    func listing() throws(FileError) -> [String] {
        // A duplicate of the descriptor would share its position in the folder.
        let copy = openat(descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard copy >= 0 else { throw FileError("open", path) }
        guard let directory = fdopendir(copy) else {
            let error = FileError("opendir", path)
            close(copy)
            throw error
        }
        defer { closedir(directory) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(directory) else {
                if errno != 0 { throw FileError("readdir", path) }
                return names
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
    }

    func flush() throws(FileError) {
        // Some file systems cannot flush folders.
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw FileError("fsync", path) }
    }

    private static let temporaryPrefix = ".new."

    static func randomName() -> String { name(of: UInt64.random(in: .min ... .max)) }

    /// Sixteen hexadecimal digits.
    static func name(of number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    static func isRandomName(_ name: some StringProtocol) -> Bool { name.utf8.count == 16 && isHexadecimal(name) }

    static func isHexadecimal(_ text: some StringProtocol) -> Bool {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    static func isTemporary(_ name: String) -> Bool {
        name.hasPrefix(temporaryPrefix) && isRandomName(name.dropFirst(temporaryPrefix.count))
    }
}

struct FileError: Error, CustomStringConvertible {
    let call: String
    let path: String
    let code: Int32

    init(_ call: String, _ path: String, _ code: Int32 = errno) {
        self.code = code
        self.call = call
        self.path = path
    }

    var description: String { "\(call) \(path): \(String(cString: strerror(code)))" }

    static func isFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT }
}

package enum DiskOperation: Sendable {
    case read, write, flush, remove
}

/// The faults of a disk that a test orders; see `FailingDisk` of DipperTesting. The disk tier asks before each
/// operation on the file of an entry or on the index.
package protocol DiskFaults: Sendable {
    /// Returns the `errno` with which the operation fails; `nil` for none. May be slow, as a disk can be.
    func error(for operation: DiskOperation) -> Int32?
}

extension DiskFaults {
    func check(_ operation: DiskOperation, _ name: String) throws(FileError) {
        if let code = error(for: operation) { throw FileError("\(operation)", name, code) }
    }

    func checkIndex(_ operation: DiskOperation) throws {
        switch error(for: operation) {
        case nil: return
        case ENOSPC?: throw SQLiteError(code: SQLITE_FULL)
        case EROFS?: throw SQLiteError(code: SQLITE_READONLY)
        default: throw SQLiteError(code: SQLITE_IOERR)
        }
    }
}
