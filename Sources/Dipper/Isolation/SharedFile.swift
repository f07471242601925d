import Foundation
import ProcessShims

/// A file in memory that the program and a helper share.
struct SharedFile: ~Copyable {
    let file: OwnedDescriptor

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

    /// Returns the pixels that a helper has written; `nil` if it still can write, or has written too few.
    func pixels(_ byteCount: Int) throws(DipperError) -> PixelStorage? {
        var status = stat()
        // The length counts only when nobody can change it any more.
        guard dipper_seal(file.number) == 0, fstat(file.number, &status) == 0, Int(status.st_size) >= byteCount else {
            return nil
        }
        return try PixelStorage(sealed: file.number, byteCount: byteCount)
    }
}
