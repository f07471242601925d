package import Foundation

/// A small file system in memory, for root. It is unmounted when the test releases it.
package final class Mount {
    struct Failed: Error { let code: Int32 }

    package let folder = TemporaryFolder()
    package var cache: URL { folder.url.appendingPathComponent("cache") }

    /// - Parameter files: the number of files and folders that it can have.
    package init(megabytes: Int, files: Int = 10_000) throws { try mount(0, "size=\(megabytes)m,nr_inodes=\(files)") }

    /// A program that another test starts at this moment has the open files of this process, until it is executed: so
    /// long the file system is busy.
    package func makeReadOnly() throws {
        for attempt in 0... {
            do {
                return try mount(UInt(MS_REMOUNT | MS_RDONLY))
            } catch let error as Failed where error.code == EBUSY && attempt < 500 {
                usleep(10_000)
            }
        }
    }

    private func mount(_ flags: UInt, _ options: String? = nil) throws {
        guard Glibc.mount("tmpfs", folder.path, "tmpfs", flags, options) == 0 else { throw Failed(code: errno) }
    }

    /// Makes empty files until there can be no more.
    package func fillWithFiles() throws {
        for number in 0... {
            let file = open(folder.path + "/theirs-\(number)", O_WRONLY | O_CREAT | O_EXCL, 0o600)
            guard file >= 0 else { if errno == ENOSPC { return } else { throw Failed(code: errno) } }
            close(file)
        }
    }

    /// Gives each file of an entry a second name elsewhere, so that deleting it frees nothing, as with a snapshot.
    package func keepBlobs() throws {
        for (number, path) in folder.files.filter({ $0.hasPrefix("cache/blobs/") }).enumerated() {
            guard link(folder.path + "/" + path, folder.path + "/kept-\(number)") == 0 else {
                throw Failed(code: errno)
            }
        }
    }

    /// Fills what is free, except for some bytes, with a file of somebody else's.
    package func fill(leaving rest: Int = 0) throws {
        let file = open(folder.path + "/theirs", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        guard file >= 0 else { throw Failed(code: errno) }
        defer { close(file) }
        let page = [UInt8](repeating: 1, count: 4_096)
        while write(file, page, page.count) > 0 {}
        guard errno == ENOSPC else { throw Failed(code: errno) }
        guard ftruncate(file, lseek(file, 0, SEEK_END) - rest) == 0 else { throw Failed(code: errno) }
    }

    /// The number of files of the cache's entries.
    package var blobs: Int { folder.files.count { $0.hasPrefix("cache/blobs/") } }

    deinit { umount2(folder.path, Int32(MNT_DETACH)) }
}
