import Dipper
import Foundation
import SampleServer

/// One photograph of the list.
struct Photograph {
    let title: String
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

    /// One photograph in so many moves.
    static let filmInterval = 60

    let count: Int
    /// As small as covers a cell, so that nothing is left to do when they are drawn.
    private let downsample: Downsample
    private let server: URL
    private let motifs: [Motif]
    private let film: Motif

    /// - Parameter size: of the cells, in pixels.
    init(_ assets: Assets, server: URL, count: Int, size: PixelSize) throws {
        downsample = Downsample(to: TargetSize(size, .fill))
        self.server = server
        self.count = count
        motifs = assets.photographs.map { Motif(path: $0, title: Self.title($0), color: Self.color($0, assets)) }
        guard !motifs.isEmpty else { throw Assets.Failure(description: "there are no photographs") }
        film = Motif(path: Film.path, title: "A walk through a photograph", color: Self.color(Film.motif, assets))
    }

    subscript(index: Int) -> Photograph {
        let motif = motif(at: index)
        return Photograph(title: motif.title, color: motif.color)
    }

    /// Asks for a photograph in the size of a cell.
    func request(at index: Int) -> ImageRequest {
        ImageRequest(string: server.absoluteString + uri(of: index)).processed(by: downsample)
    }

    /// As the server's log has it.
    func uri(of index: Int) -> String { "\(motif(at: index).path)?n=\(index)" }

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
