import Dipper
import Foundation
public import SampleServer

/// A long list made of the photographs of a server, in which each entry has an address of its own.
public struct Photographs: Sendable {
    public struct Motif: Sendable {
        let path: String
        public let title: String
        /// The colour that is shown until the photograph is loaded.
        let color: Color
    }

    /// The list has one animation in this number of entries.
    private static let filmInterval = 60

    public let count: Int
    private let server: URL
    private let motifs: [Motif]
    private let film: Motif

    /// The files that the server of the gallery has.
    public static func assets() throws -> Assets {
        var assets = try Assets(
            URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../Scrolling/Assets").standardizedFileURL)
        if let motif = assets.files[Film.motif] { assets.add(try Film.make(of: motif), at: Film.path) }
        return assets
    }

    public init(_ assets: Assets, server: URL, count: Int) throws {
        self.server = server
        self.count = count
        motifs = assets.photographs.map { Motif(path: $0, title: Self.title($0), color: Self.color($0, assets)) }
        guard !motifs.isEmpty else { throw Assets.Failure(description: "there are no photographs") }
        film = Motif(path: Film.path, title: "A walk through a photograph", color: Self.color(Film.motif, assets))
    }

    func request(at row: Int) -> ImageRequest { ImageRequest(string: server.absoluteString + uri(of: row)) }

    /// Returns path and query of a photograph, as in the server's log.
    public func uri(of row: Int) -> String { "\(self[row].path)?n=\(row)" }

    /// The photograph of an entry. The order keeps equal photographs from being neighbours in a row or a column.
    public subscript(row: Int) -> Motif {
        if row % Self.filmInterval == 6 { return film }
        return motifs[(row * 7 + row / motifs.count * 5) % motifs.count]
    }

    /// Returns the title of a path: "Coffee cup" for `/photos/coffee-cup.jpg`.
    private static func title(_ path: String) -> String {
        let name = (path.split(separator: "/").last ?? "").split(separator: ".").first ?? ""
        return name.prefix(1).uppercased() + name.dropFirst().replacing("-", with: " ")
    }

    /// Returns the mean colour of a photograph; a real server would send it with the list.
    private static func color(_ path: String, _ assets: Assets) -> Color {
        let target = TargetSize(width: 1, height: 1, .stretch)
        guard let file = assets.files[path],
            let pixel = try? Image(data: file, DecodeOptions(target: target))[0, 0]
        else { return .black }
        func part(_ value: UInt8) -> Double { Double(value) / 255 }
        return Color(red: part(pixel.x), green: part(pixel.y), blue: part(pixel.z))
    }
}
