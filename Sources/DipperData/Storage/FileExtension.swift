import Foundation

/// What the file names of entries end with, so that other programs know what is in them.
public struct FileExtension: Sendable {
    /// Without the dot; `nil` for none.
    let text: @Sendable (CacheKey) -> String?

    /// That of the URL's path, or of a key of one's own, in lower case: `jpg` for `https://host/a/Cat.JPG?size=2`. None
    /// if it is not 1 to 8 plain ASCII letters and digits, and none for what was made from another entry.
    public static let ofURL = FileExtension { key in
        // A picture made from another may be of another format.
        guard !key.isDerived else { return nil }
        // Behind the first line of a default key there are no names of files.
        let name = lastComponent(key.string.prefix { $0 != "\n" })
        guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return nil }
        return plain(String(name[name.index(after: dot)...]))?.lowercased()
    }

    /// The same for all entries; text that is not 1 to 8 plain ASCII letters and digits is none.
    public static func fixed(_ text: String) -> FileExtension {
        let text = plain(text)
        return FileExtension { _ in text }
    }

    /// Of the path, without query and fragment; empty if there is no path.
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
