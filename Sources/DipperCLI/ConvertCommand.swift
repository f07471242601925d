import ArgumentParser
import Dipper
import Foundation

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

struct CannotRead: Error, CustomStringConvertible {
    let path: String
    var description: String { "'\(path)' cannot be read." }
}
