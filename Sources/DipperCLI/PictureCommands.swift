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

            With --hashes the pictures are decoded for their ThumbHash, BlurHash and average colour, which programs show \
            until the pictures are there.

            With --isolation the last line says whether helper processes can decode pictures on this machine, and what \
            is missing. Pictures need not be named then.

            The exit status is 1 if a file is not a picture or cannot be read, or if what --isolation requires is \
            missing.
            """)

    @Argument(help: ArgumentHelp("The pictures.", valueName: "FILE|URL"))
    var sources: [String] = []

    @Flag(help: "Print the ThumbHash, the BlurHash and the average colour too.")
    var hashes = false

    @OptionGroup var decoding: DecodingOptions
    @OptionGroup var requests: RequestOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard !sources.isEmpty || decoding.given != nil else {
            throw ValidationError("Name at least one picture.")
        }
    }

    func run() async throws {
        let sources = sources.map(PictureSource.init)
        let images = ImageCache(try requests.imageConfiguration(store, decoding, for: sources))
        let posture = decoding.given == nil ? nil : await images.isolationPosture
        let infos = try await sources.load(by: images, store) {
            images.data.getData($0.request(requests.header))
        } use: { source, bytes in
            let info = try ImageInfo(bytes)
            var (json, line) = (info.json(source, bytes: bytes.count), info.line(bytes: bytes.count))
            if hashes {
                let small = decoding.options(TargetSize(width: 100, height: 100))
                let image = try PictureFile.codecs.decode(bytes, small)
                let (thumb, blur) = (try image.thumbHash(), try image.blurHash())
                let color = "#\(image.averageColor.hex.prefix(6))"
                for (name, hash) in [("thumbHash", thumb), ("blurHash", blur), ("color", color)] {
                    json.add(name, hash)
                }
                line += ", ThumbHash \(thumb), BlurHash \(blur), \(color)"
            }
            store.tell(json, or: "\(source.text): \(line)")
        }
        if let posture { store.tell(posture.json(decoding.isolation), or: "isolation: \(posture)") }
        let isRefused = decoding.isolation == .required && posture?.isComplete == false
        if isRefused || infos.contains(where: { $0 == nil }) { throw ExitCode(1) }
    }
}

extension IsolationPosture {
    fileprivate func json(_ isolation: Isolation) -> JSONLine {
        [
            "isolation": "\(isolation)", "program": program, "complete": isComplete, "missing": missing,
        ]
    }
}

extension ImageInfo {
    fileprivate func json(_ source: PictureSource, bytes: Int) -> JSONLine {
        [
            source.member: source.text, "type": format.rawValue, "width": size?.width, "height": size?.height,
            "frames": frameCount, "loops": loopCount, "orientation": orientation.rawValue, "bitDepth": bitDepth,
            "alpha": hasAlpha, "progressive": isProgressive, "profile": hasColorProfile, "bytes": bytes,
        ]
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
            if let format = pictures.format { return format }
            if output == "-" { throw ValidationError("Name the --format of what goes to standard output.") }
            return try ImageFormat(ofFile: output)
        }
    }

    func run() async throws {
        let format = try format
        var encode = EncodeOptions()
        if let quality { encode.quality = quality / 100 }
        var bytes = try BodyFiles.read(input)
        do throws(DipperError) {
            let image = try PictureFile.codecs.decode(bytes, pictures.decoding.options(pictures.resize))
            bytes = try image.encoded(as: format, encode)
        } catch {
            throw CommandFailure("\(input): \(error)")
        }
        try BodyFiles.write(bytes, to: output)
    }
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
    var cell: PixelSize?

    @OptionGroup var decoding: DecodingOptions
    @OptionGroup var requests: RequestOptions
    @OptionGroup var store: StoreOptions

    func validate() throws {
        guard !sources.isEmpty || from != nil else { throw ValidationError("Name at least one picture.") }
        if let columns, !(1...10_000).contains(columns) { throw ValidationError("--columns must be at least 1.") }
        _ = try ImageFormat(ofFile: out)
    }

    func run() async throws {
        let format = try ImageFormat(ofFile: out)
        let sources = try (sources + URLList.read(from)).map(PictureSource.init)
        guard !sources.isEmpty else { throw ValidationError("Name at least one picture.") }
        var sheet = ContactSheet(columns: columns)
        if let cell { sheet.cell = cell }

        var configuration = try requests.imageConfiguration(store, decoding, for: sources)
        configuration.options.processors = [.resize(to: TargetSize(sheet.cell))]
        configuration.options.firstFrameOnly = true
        configuration.options.serializer = PictureFile.serializer
        let cache = ImageCache(configuration)
        let pictures = try await sources.load(by: cache, store) {
            cache.getImage(ImageRequest($0.request(requests.header)))
        } use: { _, picture in
            picture
        }

        let image = try sheet.compose(pictures)
        let bytes = try image.encoded(as: format)
        try BodyFiles.write(bytes, to: out)
        let failed = pictures.count { $0 == nil }
        let shown = pictures.count - failed
        let missing = failed > 0 ? ", \(failed) missing" : ""
        store.tell(
            [
                "sheet": out, "width": image.width, "height": image.height, "pictures": shown, "failed": failed,
                "bytes": bytes.count,
            ], or: "\(out): \(image.size), \(shown) pictures\(missing), \(ByteCount.describe(bytes.count))")
        if failed > 0 { throw ExitCode(1) }
    }
}
