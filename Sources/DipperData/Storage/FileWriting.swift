import Foundation

/// Reading and writing of whole files.
enum FileWriting {
    /// Writes both parts completely. Returns the error, or `nil` for success.
    static func write(_ body: Data, _ trailer: [UInt8], to file: Int32, _ name: String) -> FileError? {
        body.withUnsafeBytes { body in
            trailer.withUnsafeBytes { trailer -> FileError? in
                var parts = [
                    iovec(iov_base: .init(mutating: body.baseAddress), iov_len: body.count),
                    iovec(iov_base: .init(mutating: trailer.baseAddress), iov_len: trailer.count),
                ][...]
                while let first = parts.first {
                    if first.iov_len == 0 {
                        parts.removeFirst()
                        continue
                    }
                    var written = parts.withUnsafeBufferPointer { writev(file, $0.baseAddress, Int32($0.count)) }
                    if written < 0 {
                        if errno == EINTR { continue }
                        return FileError("write", name)
                    }
                    while written > 0, let part = parts.first {
                        let taken = min(written, part.iov_len)
                        parts[parts.startIndex].iov_len -= taken
                        parts[parts.startIndex].iov_base = part.iov_base.map { $0 + taken }
                        written -= taken
                        if taken == part.iov_len { parts.removeFirst() }
                    }
                }
                return nil
            }
        }
    }

    /// Returns the bytes of a file; `nil` if there is no such file. The memory is from `malloc`, and the caller takes
    /// it over.
    static func read(_ name: String, in folder: Folder) throws(FileError) -> FileBytes? {
        guard let (file, size) = try folder.openFile(name) else { return nil }
        defer { close(file) }
        guard let bytes = malloc(max(size, 1)) else { throw FileError("malloc", name) }
        var count = 0
        while count < size {
            let read = Glibc.read(file, bytes + count, size - count)
            if read == 0 { break }
            if read < 0 {
                if errno == EINTR { continue }
                let error = FileError("read", name)
                free(bytes)
                throw error
            }
            count += read
        }
        return (bytes, count)
    }
}

/// Bytes in memory from `malloc`.
typealias FileBytes = (bytes: UnsafeMutableRawPointer, count: Int)
