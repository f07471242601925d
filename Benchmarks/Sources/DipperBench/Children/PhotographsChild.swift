import ArgumentParser
import Dipper
import Foundation
import Synchronization

/// A child process that requests photographs like a person who scrolls through them, a number of them at once. It
/// prints: MB before the cache is made, MB at the peak, photographs per second, milliseconds of processor time per
/// photograph, and entries on disk in the end.
struct PhotographsChild: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "photographs-child", shouldDisplay: false)

    @Option var base: String
    @Option var into: String
    @Option var count: Int
    @Option var atOnce: Int
    @Option var memoryLimit: Int
    @Flag var localFiles = false

    func run() async throws {
        let before = try Machine.memory("VmHWM")
        var configuration = ImageCache.Configuration(directory: URL(fileURLWithPath: into, isDirectory: true))
        configuration.memoryLimit = memoryLimit
        configuration.data.diskLimit = 16 << 30
        let cache = ImageCache(configuration)
        let processor = ImageProcessors.Resize(width: 400, height: 300, allowsUpscaling: false)
        let start = monotonicSeconds()
        let processorStart = Timing.processorSeconds(ofProcess: true)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= atOnce { try await group.next() }
                guard let request = request(number) else { throw BenchError("no request for \(number)") }
                group.addTask {
                    let image = try await cache.getImage(request.processed(by: processor)).value
                    guard image.width == 400, image.height == 300 else {
                        throw BenchError("a picture of \(image.size)")
                    }
                }
            }
            try await group.waitForAll()
        }
        let time = monotonicSeconds() - start
        let processorTime = Timing.processorSeconds(ofProcess: true) - processorStart
        let peak = try Machine.memory("VmHWM")
        await cache.synchronize()
        let onDisk = cache.data.diskCount
        await cache.shutdown()
        print(before, peak, Double(count) / time, processorTime / Double(count) * 1e3, onDisk)
    }

    private func request(_ number: Int) -> ImageRequest? {
        if localFiles { return ImageRequest(FileProvider(URL(fileURLWithPath: "\(base)/\(number)"))) }
        return URL(string: "\(base)/\(number)").map { ImageRequest($0) }
    }
}
