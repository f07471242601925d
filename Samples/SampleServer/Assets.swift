import Foundation

/// The files that are served, in memory: `/photos/coffee-cup.jpg` and its like.
public struct Assets: Sendable {
    /// What is wrong, for whoever started the program.
    public struct Failure: Error, CustomStringConvertible {
        /// A sentence.
        public let description: String

        /// With a sentence.
        public init(description: String) {
            self.description = description
        }
    }

    /// The bytes by path. What is not in here cannot be asked for, however a path is written.
    public private(set) var files: [String: Data] = [:]

    /// Reads a folder; files whose names begin with a dot are left out.
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

    /// Paths of the photographs, by name.
    public var photographs: [String] {
        files.keys.filter { $0.hasPrefix("/photos/") && $0.hasSuffix(".jpg") }.sorted()
    }

    /// Adds a file that is in no folder.
    public mutating func add(_ bytes: Data, at path: String) {
        files[path] = bytes
    }
}
