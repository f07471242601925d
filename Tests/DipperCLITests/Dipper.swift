import FaultServer
import TestSupport
import Testing

/// The tool as a user starts it, beside a server, with its cache in a folder of its own.
struct Dipper {
    typealias Output = ChildProcess.Output

    static let executable = Built.executable("dipper")
    let server: FaultServer
    let folder = TemporaryFolder()
    var path: String { folder.path }

    /// - Parameter files: what the server has beside its own answers, by path.
    init(_ files: [String: Data] = [:]) async throws { server = try await FaultServer.start(files: files) }

    func url(_ target: String) -> String { server.url(target).absoluteString }
    func file(_ name: String) throws -> Data { try Data(contentsOf: folder.url.appendingPathComponent(name)) }

    func run(_ arguments: [String], input: String = "") async throws -> Output {
        try await start(arguments, input: .inMemory(input)).output()
    }

    func run(_ arguments: String..., input: String = "") async throws -> Output {
        try await run(arguments, input: input)
    }

    func start(
        _ arguments: [String], input: FileHandle? = nil, output: FileHandle? = nil, errors: FileHandle? = nil,
        in folder: String = "."
    ) throws -> ChildProcess {
        let takesFolder = !["--version", "convert"].contains(arguments.first)
        return try ChildProcess(
            Self.executable, arguments + (takesFolder ? ["--cache-dir", path + "/cache"] : []), input: input,
            output: output, errors: errors, in: folder)
    }

    static func run(_ arguments: [String], environment: [String: String] = [:]) async throws -> Output {
        let all = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        return try await ChildProcess(executable, arguments, environment: all).output()
    }
}

extension ChildProcess.Output {
    var text: String { String(decoding: data, as: UTF8.self) }
    var lines: [String] { text.split(separator: "\n").map(String.init) }

    private var objects: [[String: JSON]] {
        lines.compactMap { try? JSONDecoder().decode([String: JSON].self, from: Data($0.utf8)) }
    }
    /// The calls of a run with `--json`, by URL; the last one for a URL asked for twice.
    var calls: [[String: JSON]] { objects.filter { $0["summary"] == nil } }
    var summary: [String: JSON] { objects.compactMap { $0["summary"]?.fields }.first ?? [:] }
}

enum JSON: Decodable, Hashable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    case text(String), number(Int), flag(Bool), object([String: JSON]), other

    init(stringLiteral text: String) { self = .text(text) }
    init(integerLiteral number: Int) { self = .number(number) }
    init(booleanLiteral flag: Bool) { self = .flag(flag) }

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let flag = try? value.decode(Bool.self) {
            self = .flag(flag)
        } else if let number = try? value.decode(Int.self) {
            self = .number(number)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else {
            self = (try? value.decode([String: JSON].self)).map(JSON.object) ?? .other
        }
    }

    var text: String? { if case .text(let text) = self { text } else { nil } }
    var number: Int? { if case .number(let number) = self { number } else { nil } }
    var fields: [String: JSON]? { if case .object(let fields) = self { fields } else { nil } }
}

extension [String: JSON] {
    subscript(_ first: String, _ rest: String...) -> [JSON?] { ([first] + rest).map { self[$0] } }
}

enum PictureFiles {
    private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// One of `Tests/DipperTests/Pictures`, such as `gif/keep.gif`.
    static func file(_ name: String) -> URL { tests.appendingPathComponent("DipperTests/Pictures/\(name)") }

    /// A photograph of the sample's: 900 × 600 pixels.
    static let photo = tests.deletingLastPathComponent()
        .appendingPathComponent("Samples/Scrolling/Assets/photos/coffee-cup.jpg")
    static var photoBytes: Data { get throws { try Data(contentsOf: photo) } }

    static func decode(_ file: String) throws -> Image { try decode(URL(fileURLWithPath: file)) }
    static func decode(_ file: URL) throws -> Image { try CodecRegistry.standard.decode(Data(contentsOf: file)) }

    static func durations(_ image: Image) throws -> [Duration] {
        try image.animation?.makeFrameDecoder().rest().map(\.duration) ?? []
    }
}
