import ArgumentParser
import Dipper
import Foundation

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
