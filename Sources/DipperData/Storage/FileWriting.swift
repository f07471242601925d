import Foundation

/// Reading and writing of whole files.
enum FileWriting {
    /// Writes all bytes. Returns the error, or `nil` for success.
    static func write(_ bytes: Data, to file: Int32, _ name: String) -> FileError? {
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

    /// Returns the bytes of a file; `nil` if there is no such file. The memory is from `malloc`, and the caller takes
    /// it over.
    static func read(_ name: String, in folder: Folder, atMost limit: Int) throws(FileError) -> FileBytes? {
        guard let (file, whole) = try folder.openFile(name) else { return nil }
        defer { close(file) }
        let size = min(whole, limit)
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
