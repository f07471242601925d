import ArgumentParser
import Dipper
import Foundation

struct PictureOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Resize pictures: WxH fits them into the size and never enlarges them, WxH^ covers the size, WxH! "
                + "stretches them to exactly the size.", valueName: "WxH"))
    var resize: TargetSize?

    @Option(help: ArgumentHelp("Write pictures in this format: \(ImageFormat.writableNames).", valueName: "FORMAT"))
    var format: ImageFormat?

    @OptionGroup var decoding: DecodingOptions

    var isUsed: Bool { resize != nil || format != nil }
}

struct DecodingOptions: ParsableArguments {
    @Option(
        name: .customLong("isolation"),
        help: ArgumentHelp(
            "Who decodes pictures: helper processes that can open no file and reach no network (required), such helpers "
                + "as far as the system has what they need (preferred), the tool itself (off), or such helpers for "
                + "HEIC, JPEG XL and SVG and the tool for the other formats (automatic). (default: automatic)",
            valueName: "required|preferred|automatic|off"))
    var given: Isolation?

    var isolation: Isolation { given ?? .automatic }

    func options(_ target: TargetSize? = nil) -> DecodeOptions {
        var options = DecodeOptions(target: target)
        options.isolation = isolation
        return options
    }
}

/// As text: the name of the case.
extension Isolation: ExpressibleByArgument {
    public init?(argument: String) {
        let isolation = [Isolation.required, .preferred, .automatic, .off].first { "\($0)" == argument.lowercased() }
        guard let isolation else { return nil }
        self = isolation
    }
}

/// As text: `400x300`, `400x300^`, `400x300!`.
extension TargetSize: ExpressibleByArgument {
    public init?(argument: String) {
        let mode: TargetSize.Mode =
            switch argument.last {
            case "!": .stretch
            case "^": .fill
            default: .fit
            }
        guard let size = PixelSize(argument: mode == .fit ? argument : String(argument.dropLast())) else { return nil }
        // Without upscaling, a small picture would be neither exact nor cover the size.
        self.init(size, mode, allowsUpscaling: mode != .fit)
    }
}

extension PixelSize: ExpressibleByArgument {
    public init?(argument: String) {
        let lengths = argument.split(separator: "x", omittingEmptySubsequences: false).map { text in
            text.allSatisfy { $0.isASCII && $0.isNumber } ? Int(text) ?? 0 : 0
        }
        guard lengths.count == 2, lengths.allSatisfy({ (1...100_000).contains($0) }) else { return nil }
        self.init(width: lengths[0], height: lengths[1])
    }
}

/// As text: the name or the file extension of a format that can be written.
extension ImageFormat: ExpressibleByArgument {
    public init?(argument: String) {
        let name = argument.lowercased()
        guard let format = Self.writable.first(where: { $0.rawValue == name || $0.fileExtension == name }) else {
            return nil
        }
        self = format
    }

    init(ofFile path: String) throws {
        guard let dot = path.lastIndex(of: "."), let format = Self(argument: String(path[dot...].dropFirst())) else {
            throw ValidationError("'\(path)' ends like none of the formats that can be written: \(Self.writableNames).")
        }
        self = format
    }

    private static let writable = CodecRegistry.standard.writable.sorted { $0.rawValue < $1.rawValue }
    static let writableNames = writable.map(\.rawValue).joined(separator: ", ")
}

struct PictureSource {
    let argument: String
    let isURL: Bool

    init(_ argument: String) {
        self.argument = argument
        let start = argument.prefix(8).lowercased()
        isURL = start.hasPrefix("http://") || start.hasPrefix("https://")
    }

    var text: String { isURL ? Redaction.standard.text(argument) : argument }

    var member: String { isURL ? "url" : "file" }

    func request(_ header: HeaderOptions) -> DataRequest {
        if isURL { return header.request(argument) }
        let file = DataRequest(FileProvider(URL(fileURLWithPath: argument)))
        var status = stat()
        guard argument == "-" || stat(argument, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO else { return file }
        return DataRequest(CustomProvider(key: file.cacheKey) { [argument] in try BodyFiles.read(argument) })
            .with(\.cachePolicy, .memoryOnly)
    }
}

extension [PictureSource] {
    /// Makes a call for each picture at once, hands the results to a closure in the order of the pictures, and ends the
    /// cache. Returns the closure's values, with `nil` for each picture that failed.
    func load<Call: FetchTask, Value>(
        by images: ImageCache, _ store: StoreOptions, _ call: (PictureSource) -> Call,
        use: (PictureSource, Call.Value) throws -> Value
    ) async throws -> [Value?] {
        Interrupt.handle {
            images.cancelAll()
            images.data.cancelAll()
        }
        await images.data.connectShared()
        let calls = map(call)
        var values: [Value?] = []
        for (source, call) in zip(self, calls) {
            do {
                values.append(try use(source, await call.value))
            } catch {
                values.append(nil)
                let line: JSONLine = [source.member: source.text, "error": "\(error)"]
                if store.json { tell(line.text) } else { warn("\(source.text): \(error)") }
            }
        }
        await images.shutdown()
        Interrupt.handle(nil)
        if Interrupt.happened { throw ExitCode(130) }
        return values
    }
}
