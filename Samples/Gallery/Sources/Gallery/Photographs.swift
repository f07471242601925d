import Dipper
import Foundation
import SampleServer

/// A long list made of a few photographs, in which each entry has an address of its own.
struct Photographs: Sendable {
    struct Motif: Sendable {
        let path: String
        let title: String
        /// The colour that fills the cell until the photograph is loaded.
        let color: Color
    }

    /// The list has one animation in this number of entries.
    static let filmInterval = 60

    let count: Int
    /// The processor that decodes each photograph to the smallest size that covers a cell, so that drawing does not
    /// scale.
    private let downsample: ImageProcessors.Resize
    private let server: URL
    private let motifs: [Motif]
    private let film: Motif

    init(_ assets: Assets, server: URL, count: Int, size: PixelSize) throws {
        downsample = ImageProcessors.Resize(to: TargetSize(size, .fill))
        self.server = server
        self.count = count
        motifs = assets.photographs.map { Motif(path: $0, title: Self.title($0), color: Self.color($0, assets)) }
        guard !motifs.isEmpty else { throw Assets.Failure(description: "there are no photographs") }
        film = Motif(path: Film.path, title: "A walk through a photograph", color: Self.color(Film.motif, assets))
    }

    func request(at index: Int) -> ImageRequest {
        ImageRequest(string: server.absoluteString + uri(of: index)).processed(by: downsample)
    }

    /// Returns path and query of a photograph, as in the server's log.
    func uri(of index: Int) -> String { "\(self[index].path)?n=\(index)" }

    /// The photograph of an entry. The order keeps equal photographs from being neighbours in a row or a column.
    subscript(index: Int) -> Motif {
        if index % Self.filmInterval == 6 { return film }
        return motifs[(index * 7 + index / motifs.count * 5) % motifs.count]
    }

    /// Returns the title of a path: "Coffee cup" for `/photos/coffee-cup.jpg`.
    private static func title(_ path: String) -> String {
        let name = (path.split(separator: "/").last ?? "").split(separator: ".").first ?? ""
        return name.prefix(1).uppercased() + name.dropFirst().replacing("-", with: " ")
    }

    /// Returns the mean colour of a photograph, darkened a little; a real server would send it with the list.
    private static func color(_ path: String, _ assets: Assets) -> Color {
        let target = TargetSize(width: 1, height: 1, .stretch)
        guard let file = assets.files[path],
            let pixel = try? Image(data: file, DecodeOptions(target: target))[0, 0]
        else { return .black }
        func part(_ value: UInt8) -> Double { Double(value) / 255 * 0.8 }
        return Color(red: part(pixel.x), green: part(pixel.y), blue: part(pixel.z))
    }
}
