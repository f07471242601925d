import DipperData
import Foundation
import ProcessShims

/// The place of a video: a file, or bytes in memory.
enum VideoSource: Sendable {
    case file(URL)
    case bytes(Data)

    /// The name of the video in messages.
    var name: String {
        switch self {
        case .file(let file): file.path
        case .bytes: "the video"
        }
    }

    /// Opens the video for reading. Blocks the thread.
    func opened() throws(DipperError) -> OwnedDescriptor {
        switch self {
        case .file(let file): try Self.opened(file)
        case .bytes(let bytes): try Self.opened(bytes)
        }
    }

    /// Returns a key made of the file's URL, size and modification time, or of the URL alone if the file cannot be
    /// read. A URL contains no line break, so the line after it cannot be mistaken for a part of it.
    static func key(of file: URL) -> CacheKey {
        let key = CacheKey(file.standardizedFileURL)
        var status = stat()
        guard file.isFileURL, stat(file.path, &status) == 0 else { return key }
        return CacheKey("\(key.string)\n\(status.st_size) \(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)")
    }

    private static func opened(_ file: URL) throws(DipperError) -> OwnedDescriptor {
        guard file.isFileURL else { throw .unreadable.with(detail: "'\(file)' is no file") }
        // Opening a pipe without a writer must not block the thread.
        let flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK
        let descriptor = try OwnedDescriptor(open(file.path, flags), for: file.path)
        var status = stat()
        guard fstat(descriptor.number, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw .unreadable.with(detail: "'\(file.path)' is no regular file")
        }
        return descriptor
    }

    /// Opens a file that exists only in memory. A pipe would not do, because a video's index may be at its end.
    private static func opened(_ bytes: Data) throws(DipperError) -> OwnedDescriptor {
        let descriptor = try OwnedDescriptor(dipper_memory_file(), for: "memory for a video")
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes { bytes in
                pwrite(descriptor.number, bytes.baseAddress.map { $0 + offset }, bytes.count - offset, off_t(offset))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw OwnedDescriptor.failure("memory for a video", errno) }
            offset += count
        }
        return descriptor
    }
}
