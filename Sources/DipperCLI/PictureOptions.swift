import ArgumentParser
import Dipper
import Foundation

struct PictureOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Resize pictures: WxH fits them into the size and never enlarges them, WxH^ covers the size, WxH! "
                + "stretches them to exactly the size.", valueName: "WxH"))
    var resize: Resizing?

    @Option(help: ArgumentHelp("Write pictures in this format: \(PictureFormat.list).", valueName: "FORMAT"))
    var format: PictureFormat?

    var isUsed: Bool { resize != nil || format != nil }
}

/// A size for pictures: `400x300`, `400x300^`, `400x300!`.
struct Resizing: ExpressibleByArgument {
    let target: TargetSize

    init?(argument: String) {
        var text = argument[...]
        let mode: TargetSize.Mode
        switch text.last {
        case "!": mode = .stretch
        case "^": mode = .fill
        default: mode = .fit
        }
        if mode != .fit { text.removeLast() }
        guard let size = CellSize(argument: String(text)) else { return nil }
        // Without upscaling, a small picture would be neither exact nor cover the size.
        target = TargetSize(size.size, mode, allowsUpscaling: mode != .fit)
    }
}

/// Two lengths in pixels, such as `160x120`.
struct CellSize: ExpressibleByArgument {
    let size: PixelSize

    init?(argument: String) {
        let lengths = argument.split(separator: "x", omittingEmptySubsequences: false).map { text in
            text.allSatisfy { $0.isASCII && $0.isNumber } ? Int(text) ?? 0 : 0
        }
        guard lengths.count == 2, lengths.allSatisfy({ (1...100_000).contains($0) }) else { return nil }
        size = PixelSize(width: lengths[0], height: lengths[1])
    }
}

/// A format that can be written, given by its name or its file extension.
struct PictureFormat: ExpressibleByArgument {
    let format: ImageFormat

    init?(argument: String) {
        let name = argument.lowercased()
        let found = Self.writable.first { $0.rawValue == name || $0.fileExtension == name }
        guard let found else { return nil }
        format = found
    }

    init?(ofFile path: String) {
        guard let dot = path.lastIndex(of: "."), !path[dot...].contains("/") else { return nil }
        self.init(argument: String(path[path.index(after: dot)...]))
    }

    private static let writable = CodecRegistry.standard.writable.sorted { $0.rawValue < $1.rawValue }
    static let list = writable.map(\.rawValue).joined(separator: ", ")
}

/// A file, or a URL whose bytes come through the cache.
enum PictureSource {
    case file(String)
    case url(String)

    init(_ argument: String) {
        let start = argument.prefix(8).lowercased()
        self = start.hasPrefix("http://") || start.hasPrefix("https://") ? .url(argument) : .file(argument)
    }

    /// The file or URL as given, without secrets.
    var text: String {
        switch self {
        case .file(let path): path
        case .url(let url): Redaction.standard.text(url)
        }
    }

    var isURL: Bool {
        if case .url = self { true } else { false }
    }

    /// The name of the source's member in JSON.
    var member: String {
        switch self {
        case .file: "file"
        case .url: "url"
        }
    }

    func request(_ headers: [HeaderArgument]) -> DataRequest {
        switch self {
        case .file(let path): DataRequest(FileProvider(URL(fileURLWithPath: path)))
        case .url(let url): DipperCLI.request(url, headers)
        }
    }
}

struct PictureFailure {
    var source: PictureSource
    var error: any Error

    var json: String {
        var line = JSONLine()
        line.add(source.member, .string(source.text))
        line.add("error", .string("\(error)"))
        return line.text
    }

    var text: String { onOneLine("\(source.text): \(error)") }

    func report(json: Bool) {
        if json { tell(self.json) } else { warn("dipper: \(text)") }
    }
}
