import CPicturePeers
import Dipper
import Foundation

/// The comparison of decoding a picture, whole and to the size of a thumbnail.
struct Decoding: Comparison {
    let name = "decode"
    let title = "Decoding"

    private static let ours = "Dipper"
    private static let c = "libjpeg-turbo in C"
    private static let png = "libpng in C"
    private static let pillow = "Pillow"
    private static let pixbuf = "gdk-pixbuf"
    private static let vips = "libvips"

    private static let small = "400 × 300"
    private static let full = "whole picture"
    private static let thumbnail = PixelSize(width: 400, height: 300)

    private struct Peers {
        let pillow: PicturePeer
        let pixbuf: PicturePeer
        let vips: PicturePeer

        init(_ bench: Bench) throws {
            pillow = try .pillow(bench)
            pixbuf = try .pixbuf(bench)
            vips = try .vips(bench)
        }

        func end() { for peer in [pillow, pixbuf, vips] { peer.end() } }
    }

    func run(_ bench: Bench) async throws -> [Table] {
        let pictures = try SamplePictures(bench)
        let peers = try Peers(bench)
        defer { peers.end() }
        return [
            try await jpeg(bench, pictures, peers), try await progressive(bench, pictures, peers),
            try await png(bench, pictures, peers), try await others(bench, pictures, peers),
        ]
    }

    // MARK: Tables

    private func jpeg(_ bench: Bench, _ pictures: SamplePictures, _ peers: Peers) async throws -> Table {
        let bytes = try Data(contentsOf: pictures.jpeg)
        var figures = Figures()
        try await figures.measure(
            rounds: bench.rounds(11),
            [ours(bytes, Self.small), peerSmall(bytes)]
                + others(peers, pictures.jpeg, Self.small)
                + [
                    ours(bytes, Self.full), peerFull(Self.c, bytes, SamplePictures.cameraSize, peer_jpeg_full),
                ] + others(peers, pictures.jpeg, Self.full))
        var table = table(
            "JPEG, 4000 × 3000",
            says:
                "Quality 85, 4:2:0. libjpeg-turbo in C decodes an eighth and averages it to the thumbnail, or the whole "
                + "picture to RGBA in a buffer that is used again. \(Self.reading)",
            [Self.ours, Self.c, Self.pillow, Self.pixbuf, Self.vips],
            [Self.small, Self.full], figures)
        table.checks = [
            Check("400 × 300 ÷ libjpeg-turbo in C", figures.ratio(Self.ours, Self.c, Self.small), .atMost, 1)
        ]
        table.checks += [Self.pillow, Self.pixbuf, Self.vips].map { peer in
            Check("400 × 300 ÷ \(peer)", figures.ratio(Self.ours, peer, Self.small), .atMost, 1)
        }
        table.checks.append(
            Check("whole picture ÷ libjpeg-turbo in C", figures.ratio(Self.ours, Self.c, Self.full), .atMost, 1.1))
        table.remarks = [
            "Ours filters the thumbnail with Lanczos, Pillow with a cubic filter after `draft`; Pillow brings a "
                + "libjpeg-turbo of its own. gdk-pixbuf and libvips make RGB of three bytes a pixel, so whole pictures are "
                + "less to write for them."
        ]
        return table
    }

    private func progressive(_ bench: Bench, _ pictures: SamplePictures, _ peers: Peers) async throws -> Table {
        let bytes = try Data(contentsOf: pictures.progressive)
        var figures = Figures()
        try await figures.measure(
            rounds: bench.rounds(7),
            [ours(bytes, Self.small), peerSmall(bytes)] + others(peers, pictures.progressive, Self.small))
        var table = table(
            "Progressive JPEG, 4000 × 3000", says: "The same picture.",
            [Self.ours, Self.c, Self.pillow, Self.pixbuf, Self.vips], [Self.small], figures)
        table.checks = [
            Check(
                "progressive, 400 × 300 ÷ libjpeg-turbo in C", figures.ratio(Self.ours, Self.c, Self.small), .atMost,
                1.05)
        ]
        return table
    }

    private func png(_ bench: Bench, _ pictures: SamplePictures, _ peers: Peers) async throws -> Table {
        var figures = Figures()
        var turns: [TimedCompetitor] = []
        var settings: [String] = []
        for (form, file) in [("RGB", pictures.png), ("RGBA", pictures.pngWithAlpha)] {
            let bytes = try Data(contentsOf: file)
            for size in [Self.small, Self.full] {
                let setting = "\(form), \(size)"
                settings.append(setting)
                turns += [
                    ours(bytes, size, as: setting),
                    peerFull(Self.png, bytes, SamplePictures.middleSize, as: setting, peer_png_full),
                ]
                turns += others(peers, file, size, as: setting)
            }
        }
        try await figures.measure(rounds: bench.rounds(9), turns)
        var table = table(
            "PNG, 2400 × 1667",
            says:
                "A photograph, and the same with alpha, decoded to RGBA. libpng in C, with `png_set_filler`, decodes the "
                + "whole picture in either case. \(Self.reading)",
            [Self.ours, Self.png, Self.pillow, Self.pixbuf, Self.vips], settings, figures)
        table.checks = settings.map { setting in
            Check("\(setting) ÷ libpng in C", figures.ratio(Self.ours, Self.png, setting), .atMost, 0.45)
        }
        return table
    }

    /// Compares WebP and AVIF; beside the peers for information.
    private func others(_ bench: Bench, _ pictures: SamplePictures, _ peers: Peers) async throws -> Table {
        var figures = Figures()
        var turns: [TimedCompetitor] = []
        var settings: [String] = []
        for (format, file) in [("WebP", pictures.webp), ("AVIF", pictures.avif)] {
            let bytes = try Data(contentsOf: file)
            for size in [Self.small, Self.full] {
                let setting = "\(format), \(size)"
                settings.append(setting)
                turns.append(ours(bytes, size, as: setting))
                turns += others(peers, file, size, as: setting).filter { $0.name != Self.pixbuf }
            }
        }
        try await figures.measure(rounds: bench.rounds(5), turns)
        var table = table(
            "WebP and AVIF, 2400 × 1667",
            says: "Pillow brings libwebp, libavif and dav1d of its own.",
            [Self.ours, Self.pillow, Self.vips], settings, figures)
        table.checks = [
            Check(
                "WebP, 400 × 300 ÷ whole picture",
                figures[Self.ours, "WebP, \(Self.small)"] / figures[Self.ours, "WebP, \(Self.full)"], .atMost, 0.8)
        ]
        for (size, processor) in [(Self.full, 1), (Self.small, 0.9)] {
            let setting = "AVIF, \(size)"
            table.checks += [
                Check("\(setting) ÷ Pillow", figures.ratio(Self.ours, Self.pillow, setting), .atMost, processor),
                Check(
                    "\(setting) ÷ Pillow, clock",
                    figures.ratio(Self.ours, Self.pillow, setting + Figures.onTheClock), .atMost, 1),
            ]
        }
        table.remarks = ["gdk-pixbuf has no loader for them here."]
        return table
    }

    private static let reading =
        "Milliseconds of the processor, all threads together, and of the clock; a file's bytes are in memory."

    private func table(
        _ title: String, says: String, _ competitors: [String], _ settings: [String], _ figures: Figures
    ) -> Table {
        Table(
            title, says: says, unit: "ms", competitors: competitors,
            settings: settings.flatMap { [$0, $0 + Figures.onTheClock] }, figures: figures)
    }

    // MARK: Competitors

    private func ours(_ bytes: Data, _ size: String, as setting: String? = nil) -> TimedCompetitor {
        let options = DecodeOptions(target: size == Self.small ? TargetSize(Self.thumbnail) : nil)
        return TimedCompetitor(name: Self.ours, setting: setting ?? size) {
            try Timing(ofProcess: true) { keep(try CodecRegistry.standard.decode(bytes, options)) }
        }
    }

    private func peerSmall(_ bytes: Data) -> TimedCompetitor {
        let (eighth, small) = (Scratch(4000 * 3000 / 64 * 4 + 4000), Scratch(400 * 300 * 4))
        return TimedCompetitor(name: Self.c, setting: Self.small) {
            Timing {
                bytes.withUnsafeBytes {
                    peer_jpeg_small($0.bytes, $0.count, eighth.memory.baseAddress, small.memory.baseAddress, 400, 300)
                }
            }
        }
    }

    private typealias Peer = (UnsafePointer<UInt8>?, Int, UnsafeMutablePointer<UInt8>?) -> Void

    private func peerFull(
        _ name: String, _ bytes: Data, _ size: PixelSize, as setting: String? = nil, _ peer: @escaping Peer
    ) -> TimedCompetitor {
        let picture = Scratch(size.width * size.height * 4)
        return TimedCompetitor(name: name, setting: setting ?? Self.full) {
            Timing { bytes.withUnsafeBytes { peer($0.bytes, $0.count, picture.memory.baseAddress) } }
        }
    }

    private func others(
        _ peers: Peers, _ file: URL, _ size: String, as setting: String? = nil
    ) -> [TimedCompetitor] {
        let target = size == Self.small ? Self.thumbnail : nil
        return [(Self.pillow, peers.pillow), (Self.pixbuf, peers.pixbuf), (Self.vips, peers.vips)].map { name, peer in
            TimedCompetitor(name: name, setting: setting ?? size) { try peer.decode(file, to: target) }
        }
    }
}

/// The memory that a peer in C writes to; its pages are touched beforehand.
final class Scratch: @unchecked Sendable {
    let memory: UnsafeMutableBufferPointer<UInt8>

    init(_ byteCount: Int) {
        memory = .allocate(capacity: byteCount)
        memory.initialize(repeating: 1)
    }

    deinit { memory.deallocate() }
}

extension UnsafeRawBufferPointer {
    var bytes: UnsafePointer<UInt8>? { baseAddress?.assumingMemoryBound(to: UInt8.self) }
}
