import Foundation

/// Blocks of Swift in the guides, and the code that the tests compile.
enum GuideBlocks {
    /// The folder of the package.
    static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The README and all pages of the catalogues, by their path in the package.
    static func pages() throws -> [String] {
        let catalogues = ["Sources/Dipper/Dipper.docc", "Sources/DipperData/DipperData.docc"]
        return try catalogues.reduce(into: ["README.md"]) { all, folder in
            let names = try FileManager.default.contentsOfDirectory(atPath: package.appendingPathComponent(folder).path)
            all += names.filter { $0.hasSuffix(".md") }.sorted().map { "\(folder)/\($0)" }
        }
    }

    /// The blocks of a page, but for those of a package's manifest: their lines.
    static func blocks(of page: String) throws -> [[String]] {
        let text = try String(contentsOf: package.appendingPathComponent(page), encoding: .utf8)
        var blocks: [[String]] = []
        var block: [String]?
        for line in lines(text) {
            if line.hasPrefix("```") {
                if let block { blocks.append(block) }
                block = block == nil && line == "```swift" ? [] : nil
            } else {
                block?.append(line)
            }
        }
        return blocks.filter { $0.first != "// Package.swift" }
    }

    /// The lines of each file beside this one.
    static func code() throws -> [[String]] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "swift" }
            .map { lines(try String(contentsOf: $0, encoding: .utf8)) }
    }

    static func contains(_ file: [String], _ block: [String]) -> Bool {
        guard !block.isEmpty, file.count >= block.count else { return false }
        return (0...file.count - block.count).contains { file[$0..<$0 + block.count].elementsEqual(block) }
    }

    /// Without indentation, and with one blank where there are several: comments are aligned in the guides alone.
    private static func lines(_ text: String) -> [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            line.split(separator: " ").joined(separator: " ")
        }
    }
}
