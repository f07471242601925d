import Foundation

/// The beginnings of bodies that were broken off: `partial/NAME`, one record each as for whole entries, written under
/// another name and renamed.
///
/// Bounded in size and in age; what is too much goes when the next one is written, the oldest first. Not listed in the
/// index: to lose them costs no more than fetching them again.
struct PartialFiles: Sendable {
    private let folder: String

    init(root: String) {
        folder = root + "/partial"
    }

    func read(_ name: String) -> EntryRecord? {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard let file = try? BlobFiles.read(name, in: descriptor) else { return nil }
        var isTaken = false
        let record = EntryRecord.decode(UnsafeRawBufferPointer(start: file.bytes, count: file.count)) { body in
            isTaken = true
            return Data(bytesNoCopy: file.bytes, count: body, deallocator: .free)
        }
        if !isTaken { free(file.bytes) }
        if record == nil { remove(name) }
        return record
    }

    /// Keeps a record, and makes room for it. One that is larger than the limit is not kept.
    func write(_ record: EntryRecord, named name: String, limit: Int, now: TimeInterval) throws(FileError) {
        guard record.value.data.count <= limit else { return remove(name) }
        try BlobFiles.makeFolder(folder)
        trim(to: limit - record.value.data.count, writtenAfter: now - Self.longestLife, now: now)
        let temporary = "\(folder)/.\(UInt64.random(in: .min ... .max))"
        let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw FileError("create", temporary) }
        var failure = BlobFiles.write(record.value.data, record.encodeTrailer(), to: file, temporary)
        if close(file) != 0, failure == nil { failure = FileError("close", temporary) }
        if failure == nil, rename(temporary, folder + "/" + name) != 0 { failure = FileError("rename", name) }
        if let failure {
            unlink(temporary)
            throw failure
        }
    }

    func remove(_ name: String) {
        unlink(folder + "/" + name)
    }

    /// Removes what is too old to be of use.
    func trimToLife(now: TimeInterval) {
        trim(to: .max, writtenAfter: now - Self.longestLife, now: now)
    }

    func removeAll() {
        trim(to: 0, writtenAfter: .infinity, now: .infinity)
    }

    /// Removes what is older, then the oldest until no more than `size` bytes are left.
    func trim(to size: Int, writtenAfter limit: TimeInterval, now: TimeInterval) {
        var files: [(path: String, size: Int, written: TimeInterval)] = []
        for name in BlobFiles.names(in: folder) {
            let path = folder + "/" + name
            var status = stat()
            guard lstat(path, &status) == 0 else { continue }
            let written = TimeInterval(status.st_mtim.tv_sec)
            // A file that is being written now has a name of its own.
            let isAbandoned = name.hasPrefix(".") && now - written > 3_600
            if written < limit || isAbandoned {
                unlink(path)
            } else {
                files.append((path, Int(status.st_size), written))
            }
        }
        var total = files.reduce(0) { $0 + $1.size }
        for file in files.sorted(by: { $0.written < $1.written }) where total > size {
            unlink(file.path)
            total -= file.size
        }
    }

    private static let longestLife: TimeInterval = 7 * 86_400
}
