import Foundation

/// The files that are served, in memory: `/photos/coffee-cup.jpg` and its like.
struct Assets {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// The bytes by path. What is not in here cannot be asked for, however a path is written.
    private(set) var files: [String: Data] = [:]

    init(_ folder: URL) throws {
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
}

/// `feed.json`: a JSON Feed, of which the sample needs the pictures.
struct Feed: Decodable {
    struct Item: Decodable {
        /// A path relative to the feed.
        let image: String
    }

    let items: [Item]
}
