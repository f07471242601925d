import Dipper
import Foundation
import SampleServer

/// One photograph of the list.
struct Photograph {
    let title: String
    let request: ImageRequest
    /// What stands for it until it is there.
    let color: Color
}

/// A long list of photographs, made of a few: each has an address of its own.
struct Photographs: Sendable {
    private struct Motif: Sendable {
        let path: String
        let title: String
        let color: Color
    }

    /// The size photographs are decoded to, whatever the size of the window.
    static let downsample = Downsample(width: 320, height: 240, .fill)
    /// One photograph in so many moves.
    static let filmInterval = 60

    let count: Int
    private let server: URL
    private let motifs: [Motif]
    private let film: Motif

    init(_ assets: Assets, server: URL, count: Int) throws {
        self.server = server
        self.count = count
        motifs = assets.photographs.map { Motif(path: $0, title: Self.title($0), color: Self.color($0, assets)) }
        guard !motifs.isEmpty else { throw Assets.Failure(description: "there are no photographs") }
        film = Motif(path: Film.path, title: "A walk through a photograph", color: Self.color(Film.motif, assets))
    }

    subscript(index: Int) -> Photograph {
        let motif = motif(at: index)
        return Photograph(
            title: motif.title, request: ImageRequest(string: address(of: index)).processed(by: Self.downsample),
            color: motif.color)
    }

    /// As the server's log has it.
    func uri(of index: Int) -> String { "\(motif(at: index).path)?n=\(index)" }

    private func address(of index: Int) -> String { server.absoluteString + uri(of: index) }

    /// So that no photograph is beside or below itself.
    private func motif(at index: Int) -> Motif {
        if index % Self.filmInterval == 6 { return film }
        return motifs[(index * 7 + index / motifs.count * 5) % motifs.count]
    }

    /// `/photos/coffee-cup.jpg` is "Coffee cup".
    private static func title(_ path: String) -> String {
        let name = (path.split(separator: "/").last ?? "").split(separator: ".").first ?? ""
        return name.prefix(1).uppercased() + name.dropFirst().replacing("-", with: " ")
    }

    /// The mean of all pixels, a little darker, as the list of a real server would tell it.
    private static func color(_ path: String, _ assets: Assets) -> Color {
        let target = TargetSize(PixelSize(width: 1, height: 1), .stretch)
        guard let file = assets.files[path],
            let pixel = try? CodecRegistry.standard.decode(file, DecodeOptions(target: target))[0, 0]
        else { return .black }
        func part(_ value: UInt8) -> Double { Double(value) / 255 * 0.8 }
        return Color(red: part(pixel.x), green: part(pixel.y), blue: part(pixel.z))
    }
}
