import Dipper
import Foundation
import Synchronization

struct BodyFiles {
    private let folder: URL
    private var names: [CacheKey: String] = [:]
    private var taken: Set<String> = []
    private var numbers: [String: Int] = [:]

    init(folder: String) throws {
        self.folder = URL(fileURLWithPath: folder, isDirectory: true)
        do {
            try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        } catch {
            let cause = (error as? CocoaError)?.underlying as? POSIXError
            throw CommandFailure(cannot: "create", folder, cause?.code.rawValue ?? EIO)
        }
        if access(folder, W_OK) != 0 { throw CommandFailure(cannot: "write to", folder) }
    }

    /// The last part of the URL, numbered if another key has that name; for a picture without the file extension.
    mutating func reserve(_ key: CacheKey, url: String, isPicture: Bool) -> URL {
        if let name = names[key] { return folder.appendingPathComponent(name) }
        let wanted = isPicture ? Self.withoutEnding(Self.name(from: url)) : Self.name(from: url)
        var name = wanted
        var number = numbers[wanted] ?? 2
        while !taken.insert(name).inserted {
            let (stem, ending) = Self.split(wanted)
            name = "\(stem)-\(number)\(ending)"
            number += 1
        }
        numbers[wanted] = number
        names[key] = name
        return folder.appendingPathComponent(name)
    }

    /// The last part of the URL, without secrets: never a hidden file or a path, and nothing that a shell or a terminal
    /// would take for more than a name.
    private static func name(from url: String) -> String {
        let path = URL(text: Redaction.standard.text(url))?.path ?? ""
        let safe = (path.split(separator: "/").last ?? "").unicodeScalars.map { isSafe($0) ? $0 : "_" }
        var name = String(String.UnicodeScalarView(safe.drop { $0 == "." }))
        // Names may have 255 bytes. A number and the extension of a picture may follow.
        while name.utf8.count > 200 { name.removeFirst() }
        return name.isEmpty ? "index" : name
    }

    private static func isSafe(_ scalar: Unicode.Scalar) -> Bool {
        let kind = scalar.properties
        if scalar.isASCII {
            return kind.isAlphabetic || kind.numericType != nil || "._-".unicodeScalars.contains(scalar)
        }
        return kind.generalCategory != .control && !kind.isWhitespace && !kind.isBidiControl
    }

    private static func withoutEnding(_ name: String) -> String {
        let (stem, ending) = split(name)
        return pictureEndings.contains(ending.dropFirst().lowercased()) ? stem : name
    }

    private static let pictureEndings: Set = [
        "jpg", "jpeg", "jpe", "png", "apng", "gif", "webp", "avif", "heic", "heif", "tif", "tiff", "bmp", "ico", "jxl",
        "svg",
    ]

    private static func split(_ name: String) -> (stem: String, ending: String) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return (name, "") }
        return (String(name[..<dot]), String(name[dot...]))
    }

    /// The file that is being written, if it is to be deleted when the process is interrupted.
    static let unfinished = Mutex<String?>(nil)

    /// Writes a file, or standard output for `-`. A regular file is written beside the target and renamed, so that the
    /// target is complete or not there at all. Devices, pipes and links stay what they are.
    static func write(_ data: Data, to path: String) throws(CommandFailure) {
        if path == "-" { return StandardOutput.write(data) }
        var status = stat()
        let isThere = lstat(path, &status) == 0
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        let beside =
            isThere && status.st_mode & S_IFMT != S_IFREG ? nil : "\(folder)/.dipper-\(UInt64.random(in: 0 ... .max))"
        unfinished.withLock { $0 = beside }
        defer { unfinished.withLock { $0 = nil } }
        let file = open(beside ?? path, O_WRONLY | O_CREAT | O_CLOEXEC | (beside == nil ? O_TRUNC : O_EXCL), 0o666)
        guard file >= 0 else { throw CommandFailure(cannot: "write", path) }
        defer { close(file) }
        if isThere, beside != nil { fchmod(file, status.st_mode & 0o777) }
        var error = dipper.write(data, to: file)
        if error == 0, let beside, rename(beside, path) != 0 { error = errno }
        if error == 0 { return }
        if let beside { unlink(beside) }
        throw CommandFailure(cannot: "write", path, error)
    }

    /// Reads a file to its end, also a pipe or a device, or standard input for `-`.
    static func read(_ path: String) throws(CommandFailure) -> Data {
        let file = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw CommandFailure(cannot: "read", path) }
        let handle = FileHandle(fileDescriptor: file, closeOnDealloc: path != "-")
        do { return try handle.readToEnd() ?? Data() } catch { throw CommandFailure(cannot: "read", path) }
    }
}
