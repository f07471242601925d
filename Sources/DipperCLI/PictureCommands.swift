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

struct ConvertCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "convert",
        abstract: "Write a picture in another format or size.",
        discussion: """
            The picture is turned upright and converted to sRGB. An animation keeps its frames if the new format \
            supports animation; otherwise only the first frame is written.

            Example: dipper convert photo.avif photo.jpg --resize 1600x1200 --quality 80
            """)

    @Argument(help: ArgumentHelp("The picture to read; - for standard input.", valueName: "FILE"))
    var input: String

    @Argument(help: ArgumentHelp("The file to write; - for standard output, with --format.", valueName: "OUT"))
    var output: String

    @OptionGroup var pictures: PictureOptions

    @Option(help: ArgumentHelp("The quality from 1 to 100, for lossy formats. (default: 85)", valueName: "Q"))
    var quality: Double?

    func validate() throws {
        if let quality, !(1...100).contains(quality) { throw ValidationError("--quality must be from 1 to 100.") }
        _ = try format
    }

    private var format: ImageFormat {
        get throws {
            if let format = pictures.format { return format.format }
            if output == "-" { throw ValidationError("Name the --format of what goes to standard output.") }
            guard let format = PictureFormat(ofFile: output) else {
                throw ValidationError(
                    "'\(output)' ends like none of the formats that can be written: \(PictureFormat.list).")
            }
            return format.format
        }
    }

    func run() async throws {
        let format = try format
        var encode = EncodeOptions()
        if let quality { encode.quality = quality / 100 }
        let image = try PictureFile.codecs.decode(try read(), DecodeOptions(target: pictures.resize?.target))
        let bytes = try PictureFile.encode(image, as: format, encode)
        if output == "-" {
            try FileHandle.standardOutput.write(contentsOf: bytes)
        } else {
            try BodyFiles.write(bytes, to: URL(fileURLWithPath: output))
        }
    }

    private func read() throws -> Data {
        if input == "-" { return FileHandle.standardInput.readDataToEndOfFile() }
        guard let data = FileManager.default.contents(atPath: input) else { throw CannotRead(path: input) }
        return data
    }
}

private struct CannotRead: Error, CustomStringConvertible {
    let path: String
    var description: String { "'\(path)' cannot be read." }
}

struct SheetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sheet",
        abstract: "Combine small versions of pictures into one picture.",
        discussion: """
            Pictures are placed in the given order, from left to right and from top to bottom. URLs are fetched \
            through the cache. A picture that cannot be fetched or decoded leaves a cell with a cross, and the exit \
            status is then 1.

            Example: dipper sheet photos/*.jpg --out sheet.png --columns 6 --cell 200x150
            """)

    @Argument(help: ArgumentHelp("The pictures.", valueName: "FILE|URL"))
    var sources: [String] = []

    @Option(help: ArgumentHelp("A file with one file name or URL per line; - for standard input.", valueName: "FILE"))
    var from: String?

    @Option(help: ArgumentHelp("The file to write; its extension selects the format.", valueName: "FILE"))
    var out: String

    @Option(help: ArgumentHelp("The number of pictures in a row. (default: an almost square sheet)", valueName: "N"))
    var columns: Int?

    @Option(help: ArgumentHelp("The largest size of each picture, in pixels. (default: 160x120)", valueName: "WxH"))
    var cell: CellSize?

    @OptionGroup var requests: RequestOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard !sources.isEmpty || from != nil else { throw ValidationError("Name at least one picture.") }
        if let columns, !(1...10_000).contains(columns) { throw ValidationError("--columns must be at least 1.") }
        guard PictureFormat(ofFile: out) != nil else {
            throw ValidationError("'\(out)' ends like none of the formats that can be written: \(PictureFormat.list).")
        }
    }

    func run() async throws {
        let sources = try (sources + (from.map(URLList.read) ?? [])).map(PictureSource.init)
        guard !sources.isEmpty, let format = PictureFormat(ofFile: out)?.format else {
            throw ValidationError("Name at least one picture.")
        }
        var sheet = ContactSheet(columns: columns)
        if let cell { sheet.cell = cell.size }

        let images = ImageCache(configuration(sources, sheet.cell))
        let interrupt = Interrupt { images.cancelAll() }
        let tasks = sources.map { images.getImage(ImageRequest($0.request(requests.headers))) }
        var pictures: [Image?] = []
        for (source, task) in zip(sources, tasks) {
            do throws(DipperError) {
                pictures.append(try await task.value)
            } catch {
                pictures.append(nil)
                PictureFailure(source: source, error: error).report(json: store.json)
            }
        }
        await images.shutdown()
        interrupt.end()
        if interrupt.happened { throw ExitCode(130) }

        let image = try sheet.compose(pictures)
        let bytes = try PictureFile.encode(image, as: format)
        try BodyFiles.write(bytes, to: URL(fileURLWithPath: out))
        let failed = pictures.count { $0 == nil }
        report(image, bytes: bytes.count, pictures: pictures.count - failed, failed: failed)
        if failed > 0 { throw ExitCode(1) }
    }

    private func configuration(_ sources: [PictureSource], _ cell: PixelSize) -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration()
        configuration.data = requests.configuration(store, for: sources)
        configuration.options.processors = [.downsample(to: TargetSize(cell))]
        configuration.options.firstFrameOnly = true
        configuration.options.serializer = PictureFile.serializer
        return configuration
    }

    private func report(_ image: Image, bytes: Int, pictures: Int, failed: Int) {
        guard store.json else {
            let missing = failed > 0 ? ", \(failed) missing" : ""
            return tell("\(out): \(image.size), \(pictures) pictures\(missing), \(ByteCount.describe(bytes))")
        }
        var line = JSONLine()
        line.add("sheet", .string(out))
        line.add("width", .int(image.width))
        line.add("height", .int(image.height))
        line.add("pictures", .int(pictures))
        line.add("failed", .int(failed))
        line.add("bytes", .int(bytes))
        tell(line.text)
    }
}
