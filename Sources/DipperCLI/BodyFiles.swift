import Dipper
import Foundation

struct BodyFiles {
    private let folder: URL
    private var names: [CacheKey: String] = [:]
    private var taken: Set<String> = []
    private var numbers: [String: Int] = [:]

    init(folder: String) throws {
        self.folder = URL(fileURLWithPath: folder, isDirectory: true)
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
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

    /// The last part of the URL, without secrets: letters, digits and a few signs, never a hidden file or a path.
    private static func name(from url: String) -> String {
        let path = URL(text: Redaction.standard.text(url))?.path ?? ""
        let last = path.split(separator: "/").last.map(String.init) ?? ""
        let safe = String(last.map { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) ? $0 : "_" })
        let visible = safe.drop { $0 == "." }
        return visible.isEmpty ? "index" : String(visible.suffix(120))
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

    /// Writes beside the target and renames, so that the target is complete or not there at all.
    static func write(_ data: Data, to file: URL) throws {
        let beside = file.deletingLastPathComponent().appendingPathComponent(".\(file.lastPathComponent).part")
        guard FileManager.default.createFile(atPath: beside.path, contents: data),
            rename(beside.path, file.path) == 0
        else {
            unlink(beside.path)
            throw CommandFailure("'\(file.path)' cannot be written.")
        }
    }

    static func write(_ data: Data, to path: String) throws {
        if path == "-" { StandardOutput.write(data) } else { try write(data, to: URL(fileURLWithPath: path)) }
    }

    static func read(_ path: String) -> Data? {
        path == "-"
            ? FileHandle.standardInput.readDataToEndOfFile() : FileManager.default.contents(atPath: path)
    }
}
