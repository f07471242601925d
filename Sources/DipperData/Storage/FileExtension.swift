import Foundation

/// The extension of the file names of entries, by which other programs recognise the contents.
///
/// ```swift
/// var configuration = DataCache.Configuration(directory: DataCache.Configuration.defaultDirectory)
/// configuration.fileNaming = .sha256(extension: .fixed("json"))
/// ```
public struct FileExtension: Sendable {
    /// The function that returns the extension without the dot, or `nil` for none.
    let text: @Sendable (CacheKey) -> String?

    /// The extension of the URL's path, or of a key of the caller's own, in lower case: `jpg` for
    /// `https://host/a/Cat.JPG?size=2`. An extension that is not 1 to 8 ASCII letters and digits is not used, and
    /// derived entries have none.
    public static let ofURL = FileExtension { key in
        // A picture made from another one may be in another format.
        guard !key.isDerived else { return nil }
        // Only the first line of a default key can contain a file name.
        let name = lastComponent(key.string.prefix { $0 != "\n" })
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
        return plain(String(name[name.index(after: dot)...]))?.lowercased()
    }

    /// Returns a rule that gives all entries the same extension. A text that is not 1 to 8 ASCII letters and digits
    /// means no extension.
    public static func fixed(_ text: String) -> FileExtension {
        let text = plain(text)
        return FileExtension { _ in text }
    }

    /// Returns the last component of the path, without query and fragment; empty if there is no path.
    private static func lastComponent(_ text: Substring) -> Substring {
        var path = text.prefix { $0 != "?" && $0 != "#" }
        if let authority = path.range(of: "://") {
            path = path[authority.upperBound...].drop { $0 != "/" }
        }
        return path.lastIndex(of: "/").map { path[path.index(after: $0)...] } ?? path
    }

    private static func plain(_ text: String) -> String? {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: false
            }
        }
        return isPlain && (1...8).contains(text.utf8.count) ? text : nil
    }
}
