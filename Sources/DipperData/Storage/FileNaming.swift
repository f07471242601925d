import Foundation

/// The rule for the file names of entries. The cache puts hexadecimal digits and dashes before a name, so that none is
/// used twice.
public struct FileNaming: Sendable {
    private let name: @Sendable (CacheKey) -> String
    private var end: FileExtension?

    func name(of record: EntryRecord) -> String {
        let own = record.fileExtension.flatMap(FileExtension.plain)
        guard let end = own ?? end?.text(record.key, record.value.data) else { return name(record.key) }
        let name = name(record.key) + "." + end
        return KeyDigest.isPlainFileName(name) ? name : KeyDigest.sha256(record.key) + "." + end
    }

    /// The rule that names a file after the key's SHA-256.
    public static let sha256 = FileNaming(name: KeyDigest.sha256)
    /// Returns the rule that adds a dot and an extension, if there is one, to the key's SHA-256, for files that other
    /// programs open. Small entries have no files; see ``DataCache/file(for:)``.
    public static func sha256(extension end: FileExtension) -> FileNaming {
        FileNaming(name: KeyDigest.sha256, end: end)
    }
    /// The rule that names a file with the key's SHA-1.
    public static let sha1 = FileNaming(name: KeyDigest.sha1)
    /// The rule that names a file with the key's MD5.
    public static let md5 = FileNaming(name: KeyDigest.md5)

    /// Returns a rule of the caller's. The key's SHA-256 replaces a name that cannot be a plain file name. Two keys may
    /// have the same name; the cache tells them apart.
    ///
    /// ```swift
    /// configuration.fileNaming = .custom { key in "page-\(key.digest)" }
    /// ```
    public static func custom(_ rule: @escaping @Sendable (CacheKey) -> String) -> FileNaming {
        FileNaming(name: { key in
            let name = rule(key)
            return KeyDigest.isPlainFileName(name) ? name : KeyDigest.sha256(key)
        })
    }
}

/// The extension of the file names of entries, by which other programs recognise the contents.
public struct FileExtension: Sendable {
    let text: @Sendable (CacheKey, Data) -> String?

    /// The extension of the URL's path, or of the caller's key, in lower case: `jpg` for
    /// `https://host/a/Cat.JPG?size=2`; none if it is not 1 to 8 ASCII letters and digits. A processed picture has the
    /// extension of the format in which it is stored: `jpg`, `png`, `gif`, `webp` or `avif`, or none.
    public static let ofURL = FileExtension { key, data in
        guard !key.isDerived else { return pictures.first { data.dropFirst($0.place).starts(with: $0.sign) }?.end }
        // Later lines of a default key contain no file name.
        let name = lastComponent(key.string.prefix { $0 != "\n" })
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
        return plain(String(name[name.index(after: dot)...]))?.lowercased()
    }

    /// Returns the same extension for all entries; none if the text is not 1 to 8 ASCII letters and digits.
    public static func fixed(_ text: String) -> FileExtension {
        let text = plain(text)
        return FileExtension { _, _ in text }
    }

    private static let pictures: [(end: String, place: Int, sign: [UInt8])] = [
        ("jpg", 0, [0xFF, 0xD8, 0xFF]), ("png", 0, [0x89, 0x50, 0x4E, 0x47]),
        ("gif", 0, Array("GIF8".utf8)), ("webp", 8, Array("WEBP".utf8)), ("avif", 4, Array("ftypavi".utf8)),
    ]

    private static func lastComponent(_ text: Substring) -> Substring {
        var path = text.prefix { $0 != "?" && $0 != "#" }
        if let authority = path.range(of: "://") {
            path = path[authority.upperBound...].drop { $0 != "/" }
        }
        return path.lastIndex(of: "/").map { path[path.index(after: $0)...] } ?? path
    }

    static func plain(_ text: String) -> String? {
        let isPlain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return isPlain && (1...8).contains(text.utf8.count) ? text : nil
    }
}
