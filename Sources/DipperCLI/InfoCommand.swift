import ArgumentParser
import Dipper
import Foundation

struct InfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Print the properties of pictures without decoding them.",
        discussion: """
            Prints the format, the size as displayed, the number of frames and loops, bits per colour, transparency, \
            progressive coding, colour profile, orientation and file size. URLs are fetched through the cache.

            The exit status is 1 if a file is not a picture or cannot be read.
            """)

    @Argument(help: ArgumentHelp("The pictures.", valueName: "FILE|URL"))
    var sources: [String]

    @OptionGroup var requests: RequestOptions
    @OptionGroup var store: StoreOptions

    func run() async throws {
        let sources = sources.map(PictureSource.init)
        let cache = DataCache(requests.configuration(store, for: sources))
        let interrupt = Interrupt { cache.cancelAll() }
        let tasks = sources.map { cache.getData($0.request(requests.headers)) }
        var isGood = true
        for (source, task) in zip(sources, tasks) {
            do throws(DipperError) {
                let bytes = try await task.value
                let info = try ImageInfo(bytes)
                tell(
                    store.json
                        ? info.json(source, bytes: bytes.count) : "\(source.text): \(info.line(bytes: bytes.count))")
            } catch {
                isGood = false
                PictureFailure(source: source, error: error).report(json: store.json)
            }
        }
        await cache.shutdown()
        interrupt.end()
        if interrupt.happened { throw ExitCode(130) }
        if !isGood { throw ExitCode(1) }
    }
}

extension ImageInfo {
    fileprivate func json(_ source: PictureSource, bytes: Int) -> String {
        var line = JSONLine()
        line.add(source.member, .string(source.text))
        line.add("type", .string(format.rawValue))
        line.add("width", size.map { .int($0.width) } ?? .null)
        line.add("height", size.map { .int($0.height) } ?? .null)
        line.add("frames", .int(frameCount))
        line.add("loops", .int(loopCount))
        line.add("orientation", .int(orientation.rawValue))
        line.add("bitDepth", bitDepth.map { .int($0) } ?? .null)
        line.add("alpha", .bool(hasAlpha))
        line.add("progressive", .bool(isProgressive))
        line.add("profile", .bool(hasColorProfile))
        line.add("bytes", .int(bytes))
        return line.text
    }

    fileprivate func line(bytes: Int) -> String {
        var parts = [size.map { "\(format) \($0)" } ?? format.rawValue]
        if frameCount > 1 {
            let loops = loopCount == 0 ? "shown for ever" : loopCount == 1 ? "shown once" : "shown \(loopCount) times"
            parts.append("\(frameCount) frames \(loops)")
        }
        if let bitDepth { parts.append("\(bitDepth) bit") }
        if hasAlpha { parts.append("alpha") }
        if isProgressive { parts.append("progressive") }
        if hasColorProfile { parts.append("profile") }
        if orientation != .up { parts.append("orientation \(orientation.rawValue)") }
        return parts.joined(separator: ", ") + ", " + ByteCount.describe(bytes)
    }
}
