import Foundation
import ProcessShims

/// Memory that the program and one helper share as long as the helper lives: what is small needs no file of its own.
struct SharedMemory: ~Copyable, Sendable {
    /// The length, in bytes, of the part for the encoded file, which the program writes, and of that for the pixels, which
    /// the helper writes.
    static let part = 1 << 20
    private let address: UInt

    /// Maps the memory's file.
    init(_ file: Int32) throws(DipperError) {
        let start = mmap(nil, 2 * Self.part, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
        guard let start, start != MAP_FAILED else { throw PixelMemory.noMemory }
        address = UInt(bitPattern: start)
    }

    deinit { munmap(file, 2 * Self.part) }

    var file: UnsafeMutableRawPointer { UnsafeMutableRawPointer(bitPattern: address).unsafelyUnwrapped }
    var pixels: UnsafeMutableRawPointer { file + Self.part }

    static func makeFile() throws(DipperError) -> OwnedDescriptor {
        try OwnedDescriptor(dipper_shared_memory("dipper decoder", 2 * part), for: "shared memory")
    }
}

/// A file in memory that the program and a helper share.
final class SharedFile: Sendable {
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

    /// Returns the pixels that a helper has written; `nil` if they are too few or too many, or the helper still could
    /// change them.
    func pixels(_ byteCount: Int) throws(DipperError) -> PixelStorage? {
        var status = stat()
        // The length counts only when nobody can change it any more. A mapped part keeps the whole file in memory.
        guard dipper_seal(file.number) == 0, fstat(file.number, &status) == 0, Int(status.st_size) == byteCount else {
            return nil
        }
        return try PixelStorage(sealed: file.number, byteCount: byteCount)
    }
}
