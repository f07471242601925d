import Foundation

/// The files to serve, in memory, by paths such as `/photos/coffee-cup.jpg`.
public struct Assets: Sendable {
    /// An error with a description for the person who started the program.
    public struct Failure: Error, CustomStringConvertible {
        /// The description of the error.
        public let description: String

        /// Creates an error with a description.
        public init(description: String) {
            self.description = description
        }
    }

    /// The files' bytes by path. The server serves no other files, however a client writes a path.
    public private(set) var files: [String: Data] = [:]

    /// Reads all files of a folder, except those whose path has a component that begins with a dot.
    /// - Throws: ``Failure`` if the folder does not exist or lacks `feed.json` or `guide.pdf`; Foundation's error if a
    ///   file cannot be read.
    public init(_ folder: URL) throws {
        let root = folder.resolvingSymlinksInPath().path
        guard let names = FileManager.default.enumerator(atPath: root) else {
            throw Failure(description: "there is no folder \(folder.path)")
        }
        for case let name as String in names
        where !name.split(separator: "/").contains(where: { $0.hasPrefix(".") }) {
            let file = URL(fileURLWithPath: root).appendingPathComponent(name)
            let values = try file.resourceValues(forKeys: [.isRegularFileKey])
            guard values.isRegularFile == true else { continue }
            files["/" + name] = try Data(contentsOf: file)
        }
        guard files["/feed.json"] != nil, files["/guide.pdf"] != nil else {
            throw Failure(description: "\(folder.path) has no feed.json and guide.pdf")
        }
    }

    /// The paths of the photographs, sorted.
    public var photographs: [String] {
        files.keys.filter { $0.hasPrefix("/photos/") && $0.hasSuffix(".jpg") }.sorted()
    }

    /// Adds a file that is not in the folder.
    public mutating func add(_ bytes: Data, at path: String) {
        files[path] = bytes
    }
}
