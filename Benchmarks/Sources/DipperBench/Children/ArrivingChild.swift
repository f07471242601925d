import ArgumentParser
import Dipper
import DipperData
import Foundation

/// A child process that requests photographs one after the other. It prints the median milliseconds from the last byte to
/// the picture, of a decode of the whole file, and from the request to the picture.
struct ArrivingChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "arriving-child", shouldDisplay: false)

    @Option var base: String
    @Option var count: Int
    /// The width of the pictures; 0 for whole ones.
    @Option var width: Int

    func run() async throws {
        let cache = ImageCache(ImageCache.Configuration())
        var (after, alone, all): ([Double], [Double], [Double]) = ([], [], [])
        var options = DecodeOptions()
        if width > 0 { options.target = TargetSize(width: width, height: width) }
        for number in 0..<count {
            guard let url = URL(string: "\(base)/\(number)") else { throw BenchError("no URL of \(number)") }
            var request = ImageRequest(url)
            if width > 0 { request = request.processed(by: .resize(width: width, height: width)) }
            let start = monotonicSeconds()
            let picture = cache.getImage(request)
            // The call for the bytes shares the fetch.
            let (lasts, last) = AsyncStream.makeStream(of: Double.self)
            let bytes = cache.data.getData(DataRequest(url).with(\.callbackQueue, .inPlace)).onEnd { _ in
                last.yield(monotonicSeconds())
            }
            _ = try await picture.value
            let end = monotonicSeconds()
            let file = try await bytes.value
            guard let arrived = await lasts.first(where: { _ in true }) else { throw BenchError("no last byte") }
            after.append((end - arrived) * 1e3)
            all.append((end - start) * 1e3)
            let begun = monotonicSeconds()
            _ = try CodecRegistry.standard.decode(file, options)
            alone.append((monotonicSeconds() - begun) * 1e3)
        }
        print(after.median, alone.median, all.median)
        await cache.shutdown()
    }
}
