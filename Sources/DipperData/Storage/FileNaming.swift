import Foundation

/// The rule for the file names of entries. The cache puts hexadecimal digits and dashes before a name, so that none is
/// used twice.
public struct FileNaming: Sendable {
    let name: @Sendable (CacheKey) -> String

    /// The rule that names a file after the key's SHA-256.
    public static let sha256 = FileNaming(name: KeyDigest.sha256)
    /// Returns the rule that adds a dot and an extension, if there is one, to the key's SHA-256, for files that other
    /// programs open. Small entries have no files; see ``DataCache/file(for:)``.
    public static func sha256(extension end: FileExtension) -> FileNaming {
        FileNaming { key in
            let digest = KeyDigest.sha256(key)
            return end.text(key).map { "\(digest).\($0)" } ?? digest
        }
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
        FileNaming { key in
            let name = rule(key)
            return KeyDigest.isPlainFileName(name) ? name : KeyDigest.sha256(key)
        }
    }
}

/// The extension of the file names of entries, by which other programs recognise the contents.
public struct FileExtension: Sendable {
    let text: @Sendable (CacheKey) -> String?

    /// The extension of the URL's path, or of the caller's key, in lower case: `jpg` for
    /// `https://host/a/Cat.JPG?size=2`. None for derived entries, nor if it is not 1 to 8 ASCII letters and digits.
    public static let ofURL = FileExtension { key in
        guard !key.isDerived else { return nil }
        // Later lines of a default key contain no file name.
        let name = lastComponent(key.string.prefix { $0 != "\n" })
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
        return plain(String(name[name.index(after: dot)...]))?.lowercased()
    }

    /// Returns the same extension for all entries; none if the text is not 1 to 8 ASCII letters and digits.
    public static func fixed(_ text: String) -> FileExtension {
        let text = plain(text)
        return FileExtension { _ in text }
    }

    private static func lastComponent(_ text: Substring) -> Substring {
        var path = text.prefix { $0 != "?" && $0 != "#" }
        if let authority = path.range(of: "://") {
            path = path[authority.upperBound...].drop { $0 != "/" }
        }
        return path.lastIndex(of: "/").map { path[path.index(after: $0)...] } ?? path
    }

    private static func plain(_ text: String) -> String? {
        let isPlain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) }
        return isPlain && (1...8).contains(text.utf8.count) ? text : nil
    }
}
