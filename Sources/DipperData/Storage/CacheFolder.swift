import Foundation

/// The marker `dipper-cache` of a folder of Dipper's: one line with its name and the number of the folder's format.
///
/// The cache creates the marker first, and only in an empty folder. It refuses and does not change a folder without a
/// marker, with another format, of another user, or in which every user may write.
enum CacheFolder {
    static let format = 4
    static let markerName = "dipper-cache"
    /// SQLite opens no file whose path, without symbolic links, is longer than 504 bytes: that of an index has 20 more.
    private static let longestPath = 484

    static func open(_ path: String) throws -> Folder {
        try make(path)
        let folder = try Folder(path: path)
        guard folder.isUsers else { throw StoreProblem("'\(path)' belongs to another user", isRefusal: true) }
        guard folder.status.st_mode & S_IWOTH == 0 else {
            throw StoreProblem("every user may write in '\(path)', which 'chmod o-w' changes", isRefusal: true)
        }
        let length = URL(fileURLWithPath: path).resolvingSymlinksInPath().path.utf8.count
        guard length <= longestPath else {
            throw StoreProblem("'\(path)' has \(length) bytes, and SQLite allows \(longestPath)", isRefusal: true)
        }
        for _ in 0..<10 {
            if try isMarked(folder) { return folder }
            let names = try folder.listing()
            if names.contains(markerName) { continue }
            guard names.allSatisfy({ isUnfinishedMarker($0, in: folder) }) else { throw foreign(folder) }
            do throws(FileError) {
                try folder.makeFile(markerName, markerText)
                for name in names { folder.remove(name) }
            } catch {
                if error.code != ENOENT { throw error }
            }
        }
        throw FileError("mark", path, EAGAIN)
    }

    private static func foreign(_ folder: Folder) -> StoreProblem {
        StoreProblem(
            "'\(folder.path)' is not a folder of Dipper's: it is not empty, and has no file '\(markerName)'",
            isRefusal: true)
    }

    private static let markerText = Data("\(markerName) \(format)\n".utf8)

    /// Returns whether another process is writing the marker, or was killed or lost power meanwhile: the bytes are a
    /// beginning of the marker, or zeros. Also `true` for a file that has just disappeared.
    static func isUnfinishedMarker(_ name: String, in folder: Folder) -> Bool {
        guard Folder.isTemporary(name) else { return false }
        guard let bytes = try? folder.readFile(name, atMost: markerText.count + 1) else {
            return folder.entry(name) == nil
        }
        return markerText.starts(with: bytes) || (bytes.count <= markerText.count && bytes.allSatisfy { $0 == 0 })
    }

    private static func isMarked(_ folder: Folder) throws -> Bool {
        // mutant FolderSafety: `return false }` => `return true }`
        guard folder.entry(markerName) != nil else { return false }
        guard let bytes = try folder.readFile(markerName, atMost: 64) else { throw foreign(folder) }
        let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard words.count == 2, words[0] == markerName, let number = Int(words[1]) else { throw foreign(folder) }
        guard number == format else {
            throw StoreProblem(
                "'\(folder.path)' has format \(number), and this version of Dipper reads format \(format)",
                isRefusal: true)
        }
        return true
    }

    /// The folder and its missing parents survive a power cut.
    private static func make(_ path: String) throws(FileError) {
        if mkdir(path, 0o700) != 0 {
            if errno == EEXIST { return }
            guard errno == ENOENT else { throw FileError("mkdir", path) }
            let parent = (path as NSString).deletingLastPathComponent
            guard !parent.isEmpty, parent != path else { throw FileError("mkdir", path, ENOENT) }
            try make(parent)
            guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw FileError("mkdir", path) }
        }
        // Flushing the parent needs permission to read it, which the user may lack.
        if let parent = try? Folder(path: (path as NSString).deletingLastPathComponent) { try parent.flush() }
    }
}

/// The reason why nothing can be kept on disk.
package struct StoreProblem: Error, Hashable {
    /// A sentence for a log or a terminal, without its full stop.
    package let description: String
    /// Whether the cache refuses to use the folder, and changes nothing there.
    package let isRefusal: Bool
    package let isReadable: Bool

    init(_ description: String, isRefusal: Bool = false, isReadable: Bool = false) {
        self.description = description
        self.isRefusal = isRefusal
        self.isReadable = isReadable
    }
}
