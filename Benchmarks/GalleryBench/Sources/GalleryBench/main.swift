// Scrolls 10,000 photographs of 30 KB for some time, in the window of the Gallery sample or in that of a naive program;
// or measures how soon a window shows something in place of a photograph that is still to be fetched.
//
//     GalleryBench (dipper | naive) SECONDS REPORT
//     GalleryBench first ROUNDS REPORT
import Dipper
import DipperGTK
import Foundation
import GalleryWindow
import SampleServer

private let count = 10_000
private let memoryLimit = 64 << 20

/// Makes the photographs as large as those of a list usually are.
private func smallAssets() throws -> Assets {
    var assets = try Photographs.assets()
    let encoder = try CodecRegistry.standard.encoder(for: .jpeg)
    for path in assets.photographs {
        guard let file = assets.files[path] else { continue }
        let image = try Image(data: file, DecodeOptions(target: TargetSize(width: 640, height: 480)))
        for quality in stride(from: 0.95, to: 0.2, by: -0.05) {
            let small = try encoder.encode(image, EncodeOptions(quality: quality))
            assets.add(small, at: path)
            if small.count <= 30_000 { break }
        }
    }
    return assets
}

/// The pictures of a window that can be seen at least in part, by the rows that are the last part of their URLs.
private func visiblePictures(in view: UnsafeMutablePointer<GtkWidget>) -> [(row: Int, place: Double, isThere: Bool)] {
    var found: [(Int, Double, Bool)] = []
    func visit(_ widget: UnsafeMutablePointer<GtkWidget>) {
        if let picture = DipperPicture(pointer: OpaquePointer(widget)) {
            var bounds = graphene_rect_t()
            guard gtk_widget_get_mapped(widget) != 0, gtk_widget_compute_bounds(widget, view, &bounds) != 0,
                let row = picture.request?.url?.query.flatMap({ Int($0.dropFirst(2)) })
            else { return }
            let top = Double(bounds.origin.y)
            guard top < Double(gtk_widget_get_height(view)), top + Double(bounds.size.height) > 0 else { return }
            return found.append((row, top, !picture.isLoading))
        }
        var child = gtk_widget_get_first_child(widget)
        while let next = child {
            visit(next)
            child = gtk_widget_get_next_sibling(next)
        }
    }
    visit(view)
    return found
}

// This comes before any thread starts; see the Gallery sample.
mallopt(M_ARENA_MAX, 2)
let arguments = CommandLine.arguments
guard arguments.count == 4, ["dipper", "naive", "first"].contains(arguments[1]), let seconds = Double(arguments[2]),
    gtk_init_check() != 0
else {
    print("On a display: GalleryBench (dipper | naive) SECONDS REPORT, or GalleryBench first ROUNDS REPORT")
    exit(2)
}
let assets = try smallAssets()
let server = try AssetServer(assets, port: 0, pace: Pace())
let photographs = try Photographs(assets, server: server.url, count: count)
let folder = FileManager.default.temporaryDirectory.appendingPathComponent("dipper-gallery-\(UUID().uuidString)")
if arguments[1] == "first" {
    let requests = (0..<max(1, Int(seconds))).map { row in
        ImageRequest(string: server.url.absoluteString + photographs.uri(of: row))
    }
    let first = try await FirstSecond(requests, folder: folder) { await server.stop() }
    print(first.summary)
    try first.write(to: URL(fileURLWithPath: arguments[3]))
    try? FileManager.default.removeItem(at: folder)
    exit(0)
}
let report: Report
if arguments[1] == "naive" {
    let window = NaiveWindow((0..<count).map { server.url.absoluteString + photographs.uri(of: $0) })
    report = Recorder(window.widget, window.scrolled, seconds: seconds, cached: { 0 }, look: { ([:], false) })
        .run("naive", count: count) { server.log.count }
} else {
    var configuration = ImageCache.Configuration(directory: folder)
    configuration.data.network.proxy = ""
    configuration.memoryLimit = memoryLimit
    let cache = ImageCache(configuration)
    let window = GalleryWindow(photographs, cache: cache, width: 1_100, height: 760)
    report = Recorder(window.widget, window.scrolled, seconds: seconds, cached: { cache.memorySize }) {
        let seen = visiblePictures(in: window.scrolled)
        let places = Dictionary(seen.map { ($0.row, $0.place) }) { first, _ in first }
        return (places, !seen.isEmpty && seen.allSatisfy(\.isThere))
    }.run("dipper", count: count) { server.log.count }
    await cache.shutdown()
}
print(report.summary)
try report.write(to: URL(fileURLWithPath: arguments[3]))
await server.stop()
try? FileManager.default.removeItem(at: folder)
