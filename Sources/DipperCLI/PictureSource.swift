import ArgumentParser
import Dipper
import Foundation

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
