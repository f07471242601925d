import Foundation
import ProcessShims

/// A file in memory that the program and a helper share.
struct SharedFile: ~Copyable {
    let file: OwnedDescriptor

    // Whoever keeps access to the file can fill it no more.
    deinit { dipper_retire(file.number) }

    /// Creates a file for pixels, which a helper writes.
    init() throws(DipperError) {
        file = try OwnedDescriptor(dipper_shared_file("dipper pixels"), for: "shared memory")
    }

    /// Creates a file with these bytes, which nobody can change.
    init(_ data: Data) throws(DipperError) {
        let file = try OwnedDescriptor(dipper_shared_file("dipper picture"), for: "shared memory")
        let number = file.number
        let isWritten = data.withUnsafeBytes { Self.write($0, at: 0, to: number) }
        guard isWritten, dipper_seal(number) == 0 else { throw OwnedDescriptor.failure("shared memory", errno) }
        self.file = file
    }

    static func write(_ bytes: UnsafeRawBufferPointer, at offset: Int, to file: Int32) -> Bool {
        var done = 0
        while done < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[done...])
            let count = pwrite(file, rest.baseAddress, rest.count, off_t(offset + done))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }

    /// In bytes. To seal what another processor has just written takes longer than to copy so little, and the kernel limits
    /// the number of mappings.
    static let mostCopied = 1 << 20

    /// Returns the pixels that a helper has written; `nil` if they are too few or too many, or the helper still could
    /// change them.
    func pixels(_ byteCount: Int) throws(DipperError) -> PixelStorage? {
        if byteCount <= Self.mostCopied {
            let storage = try PixelStorage(byteCount: byteCount)
            return pread(file.number, storage.base, byteCount, 0) == byteCount ? storage : nil
        }
        var status = stat()
        // The length counts only when nobody can change it any more. A mapped part keeps the whole file in memory.
        guard dipper_seal(file.number) == 0, fstat(file.number, &status) == 0, Int(status.st_size) == byteCount else {
            return nil
        }
        return try PixelStorage(sealed: file.number, byteCount: byteCount)
    }
}
