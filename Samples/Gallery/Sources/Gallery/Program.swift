import CGTK
import Dipper
import Foundation
import SampleServer

struct Program {
    private let options: Options

    init(_ options: Options) {
        self.options = options
    }

    @MainActor
    func run() async throws {
        var assets = try Assets(options.assets)
        guard let motif = assets.files[Film.motif] else {
            throw Assets.Failure(description: "there is no \(Film.motif) in \(options.assets.path)")
        }
        assets.add(try Film.make(of: motif), at: Film.path)
        let server = try AssetServer(assets, port: options.port, pace: options.pace)
        let folder =
            options.cache
            ?? FileManager.default.temporaryDirectory.appendingPathComponent("dipper-gallery-\(UUID().uuidString)")
        let cache = makeCache(folder)
        do {
            let cell = GridLayout(count: options.count, width: options.width).cell
            let photographs = try Photographs(assets, server: server.url, count: options.count, size: cell)
            try show(photographs, cache, server)
        } catch {
            complain("Gallery: \(error)", status: 1)
        }
        await cache.shutdown()
        await server.stop()
        if options.cache == nil { try? FileManager.default.removeItem(at: folder) }
    }

    private func makeCache(_ folder: URL) -> ImageCache {
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.data.name = "gallery"
        configuration.data.logger.logLevel = .warning
        configuration.data.callbackQueue = MainLoop.shared.queue
        // The newest requests are for the photographs on screen.
        configuration.data.fastQueue.order = .lifo
        configuration.data.diskLimit = 256 << 20
        // The server is on this machine: ignore proxies that the environment names.
        configuration.data.network.proxy = ""
        configuration.memoryLimit = options.memory << 20
        return ImageCache(configuration)
    }

    private func show(_ photographs: Photographs, _ cache: ImageCache, _ server: AssetServer) throws {
        guard let window = GalleryWindow(photographs, cache: cache, width: options.width, height: options.height)
        else { throw Assets.Failure(description: "GTK makes no window") }
        let isRecorded = options.scrollFor != nil || options.report != nil
        let recorder = isRecorded ? Recorder(window, cache, server, options) : nil
        window.run()
        guard let report = recorder?.report() else { return }
        if options.scrollFor != nil { print(report.summary) }
        if let file = options.report { try report.write(to: file) }
    }
}
