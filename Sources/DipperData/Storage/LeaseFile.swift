import Foundation
import ProcessShims

/// The folder `leases` of a cache's folder: the locks by which the kernel knows who holds which lease, and the sockets by
/// which holders are asked for their news.
///
///     locks       a file of zeros, of which no byte is stored. A locked range says that a place of a lease is held, and by
///                 whom. The kernel frees what a process has locked when it ends. Each cache makes the file longer by a
///                 byte when it opens the folder.
///     NUMBER      the socket of the cache with this number
///
/// Each open cache is a member: it locks the byte with its number in the upper half of the file. A place of a lease is a
/// range in the lower half, at a start that follows from the key and the place. Its length is one more than the number
/// of the member that holds it, so who is refused knows whom to ask. A socket that a dead member has left has the number
/// of the next one, which replaces it.
final class LeaseFile: Sendable {
    enum Answer: Equatable {
        case taken
        case held(by: Int)
        case failed
    }

    private static let members: Int64 = 1 << 62
    private static let mostMembers = 4_096

    private let folder: Folder
    private let file: Int32
    let member: Int
    /// The socket at which this member is asked for news.
    let listener: Int32
    /// Whether nobody has come before.
    let isFirst: Bool

    /// - Throws: `FileError` on a file system without locks, and on one that may ask another machine for them, or none.
    init(in root: Folder) throws(FileError) {
        var system = statfs()
        guard fstatfs(root.descriptor, &system) == 0 else { throw FileError("statfs", root.path) }
        guard Self.isLocal(UInt32(truncatingIfNeeded: system.f_type)) else {
            throw FileError("lock", root.path, ENOLCK)
        }
        let folder = try root.makeFolder("leases")
        let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC
        let file = openat(folder.descriptor, "locks", flags, 0o600)
        guard file >= 0 else { throw FileError("open", folder.path) }
        let isRegular = Self.status(file).st_mode & S_IFMT == S_IFREG
        let number = (0..<(isRegular ? Self.mostMembers : 0)).first {
            dipper_lock(file, Self.members + Int64($0), 1) == 0
        }
        var socket: Int32 = -1
        if let number {
            // In place of one that a dead member has left.
            Self.removeSocket(of: number, in: folder)
            socket = Self.socket(of: number, in: folder, listens: true)
        }
        guard let number, socket >= 0 else {
            let error = FileError("lock", folder.path)
            close(file)
            throw error
        }
        // The size tells others that somebody has come. Of two that come at the same time, one at least finds the other's
        // number.
        let size = Self.status(file).st_size
        ftruncate(file, size &+ 1)
        isFirst = size == 0
        (self.folder, self.file, member, listener) = (folder, file, number, socket)
    }

    deinit {
        close(listener)
        close(file)
    }

    func removeSocket() { Self.removeSocket(of: member, in: folder) }

    private static func removeSocket(of number: Int, in folder: Folder) {
        if (folder.entry("\(number)")?.st_mode ?? 0) & S_IFMT == S_IFSOCK { folder.remove("\(number)") }
    }

    /// Whether the kernel of this machine alone decides about the locks of a file system, by its number in statfs(2).
    static func isLocal(_ type: UInt32) -> Bool { local.contains(type) }

    /// ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ramfs, F2FS, ZFS, bcachefs, JFS, NILFS, UBIFS, eCryptfs.
    private static let local: Set<UInt32> = [
        0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x8584_58F6, 0xF2F5_2010, 0x2FC1_2FC1, 0xCA45_1A4E,
        0x3153_464A, 0x3434, 0x2405_1905, 0xF15F,
    ]

    // MARK: Locks

    private static func start(_ id: UInt64, _ place: LeasePlace) -> Int64 {
        Int64(id & ((1 << 44) - 1)) << 18 | Int64(place.rawValue) << 17
    }

    func lock(_ id: UInt64, _ place: LeasePlace) -> Answer {
        let (start, length) = (Self.start(id, place), Int64(member + 1))
        // A holder may give its place back between the two questions.
        for _ in 0..<4 {
            if dipper_lock(file, start, length) == 0 { return .taken }
            guard errno == EAGAIN || errno == EACCES else { return .failed }
            let other = dipper_other_lock(file, start, length)
            if other < 0 { return .failed }
            if other > 0 { return .held(by: Int(min(other, Int64(Self.mostMembers))) - 1) }
        }
        return .failed
    }

    func unlock(_ id: UInt64, _ place: LeasePlace) {
        _ = dipper_unlock(file, Self.start(id, place), Int64(member + 1))
    }

    /// Grows when a member joins.
    var size: off_t { Self.status(file).st_size }

    var hasOthers: Bool { dipper_other_lock(file, Self.members, Int64(Self.mostMembers)) != 0 }

    /// Whether a cache's folder has this file still.
    func isIn(_ root: Folder) -> Bool {
        let own = Self.status(file)
        return root.entry("leases/locks").map { $0.st_ino == own.st_ino && $0.st_dev == own.st_dev } == true
    }

    private static func status(_ file: Int32) -> stat {
        var status = stat()
        fstat(file, &status)
        return status
    }

    // MARK: Sockets

    /// Opens a connection to another member; negative if it is gone.
    func connect(to other: Int) -> Int32 { Self.socket(of: other, in: folder, listens: false) }

    private static func socket(of number: Int, in folder: Folder, listens: Bool) -> Int32 {
        // A path may have 108 bytes.
        dipper_local_socket("/proc/self/fd/\(folder.descriptor)/\(number)", listens ? 1 : 0)
    }
}
