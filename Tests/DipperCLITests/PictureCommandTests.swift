import DipperTesting
import Dipper
import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The command line tells of pictures, converts them and puts them on sheets", .timeLimit(.minutes(2)))
struct PictureCommandTests {
    // MARK: info

    @Test("info tells what headers say, of files, without a cache folder")
    func info() async throws {
        let folder = TemporaryFolder()
        let files = ["profile.jpg", "progressive.jpg", "interlaced.png", "moving-3.gif"].map {
            PictureFiles.file("headers/" + $0)
        }
        let output = try await Dipper.run(
            ["info"] + files.map(\.path) + ["--json", "--cache-dir", folder.path + "/cache"])
        #expect(output.status == 0, "\(output.errors)")
        #expect(output.calls.map { $0["file"] as? String } == files.map(\.path), "in the order given")
        for (call, file) in zip(output.calls, files) {
            let bytes = try Data(contentsOf: file)
            let info = try ImageInfo(bytes)
            #expect(
                Set(call.keys) == [
                    "file", "type", "width", "height", "frames", "loops", "orientation", "bitDepth", "alpha",
                    "progressive", "profile", "bytes",
                ])
            #expect(call["type"] as? String == info.format.rawValue)
            #expect(call["width"] as? Int == info.size?.width)
            #expect(call["height"] as? Int == info.size?.height)
            #expect(call["frames"] as? Int == info.frameCount)
            #expect(call["loops"] as? Int == info.loopCount)
            #expect(call["progressive"] as? Bool == info.isProgressive)
            #expect(call["profile"] as? Bool == info.hasColorProfile)
            #expect(call["bytes"] as? Int == bytes.count)
        }
        #expect(output.calls.map { $0["profile"] as? Bool } == [true, false, false, false])
        #expect(output.calls.map { $0["progressive"] as? Bool } == [false, true, true, false])
        #expect(output.calls.last?["frames"] as? Int == 3)
        #expect(output.calls.last?["loops"] as? Int == 4)
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/cache"))

        let text = try await Dipper.run(["info", files[3].path])
        #expect(text.lines.count == 1)
        #expect(text.lines[0].hasPrefix("\(files[3].path): gif 40x24, 3 frames shown 4 times"))
    }

    @Test("info of a URL goes through the cache, and what is no picture fails alone")
    func infoOfURLs() async throws {
        let folder = TemporaryFolder()
        let photo = try Data(contentsOf: PictureFiles.photo)
        let server = try await PictureFiles.serve(["/a": photo, "/text": Data("no picture".utf8)])
        let arguments =
            ["info", server.address("/a"), server.address("/text"), server.address("/none"), folder.path + "/none"]
            + ["--json", "--cache-dir", folder.path + "/cache"]
        for _ in 0..<2 {
            let output = try await Dipper.run(arguments)
            #expect(output.status == 1)
            #expect(output.calls.count == 4)
            #expect(output.calls[0]["url"] as? String == server.address("/a"))
            #expect(output.calls[0]["width"] as? Int == 900)
            #expect(output.calls[0]["bytes"] as? Int == photo.count)
            #expect((output.calls[1]["error"] as? String)?.hasPrefix("unsupported format") == true)
            #expect((output.calls[2]["error"] as? String)?.contains("404") == true)
            #expect(output.calls[3]["file"] as? String == folder.path + "/none")
            #expect(output.calls[3]["error"] != nil)
        }
        #expect(server.requests.filter { $0.path == "/a" }.count == 1)
        let offline = try await Dipper.run(
            ["info", server.address("/b"), "--cache-only", "--cache-dir", folder.path + "/cache"])
        #expect(offline.status == 1)
        #expect(offline.errors.contains(server.address("/b")))
        await server.stop()
    }

    // MARK: convert

    @Test("convert writes the format that the name or --format says, with the same pixels where nothing is lost")
    func convert() async throws {
        let folder = TemporaryFolder()
        let photo = PictureFiles.photo.path
        #expect(try await Dipper.run(["convert", photo, folder.path + "/a.png", "--resize", "90x90"]).status == 0)
        let image = try PictureFiles.decode(folder.path + "/a.png")
        let wanted = try CodecRegistry.standard.decode(
            Data(contentsOf: PictureFiles.photo),
            DecodeOptions(target: TargetSize(PixelSize(width: 90, height: 90))))
        #expect(image.size == PixelSize(width: 90, height: 60))
        #expect(image.withPixels { Array($0) } == wanted.withPixels { Array($0) })

        var sizes: [Int] = []
        for quality in ["10", "50", "95"] {
            let file = folder.path + "/\(quality).jpeg"
            #expect(
                try await Dipper.run(["convert", folder.path + "/a.png", file, "--quality", quality]).status == 0)
            let bytes = try Data(contentsOf: URL(fileURLWithPath: file))
            #expect(ImageFormat(sniffing: bytes) == .jpeg)
            sizes.append(bytes.count)
        }
        #expect(sizes == sizes.sorted() && sizes[0] < sizes[2])

        let named = folder.path + "/no-ending"
        #expect(try await Dipper.run(["convert", photo, named, "--format", "png", "--resize", "9x9"]).status == 0)
        #expect(ImageFormat(sniffing: try Data(contentsOf: URL(fileURLWithPath: named))) == .png)
        #if WebP
            #expect(try await Dipper.run(["convert", folder.path + "/a.png", folder.path + "/a.webp"]).status == 0)
            #expect(try ImageInfo(Data(contentsOf: folder.url.appendingPathComponent("a.webp"))).format == .webp)
        #endif
    }

    @Test("convert reads standard input and writes standard output")
    func pipe() async throws {
        let folder = TemporaryFolder()
        let out = folder.url.appendingPathComponent("out")
        #expect(FileManager.default.createFile(atPath: out.path, contents: nil))
        let process = Process()
        process.executableURL = Dipper.executable
        process.arguments = ["convert", "-", "-", "--format", "png", "--resize", "30x30"]
        process.standardInput = try FileHandle(forReadingFrom: PictureFiles.photo)
        process.standardOutput = try FileHandle(forWritingTo: out)
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        let bytes = try Data(contentsOf: out)
        #expect(ImageFormat(sniffing: bytes) == .png)
        #expect(try CodecRegistry.standard.decode(bytes).size == PixelSize(width: 30, height: 20))
    }

    @Test("convert fails on what is no picture, is not there, or cannot be written, and leaves no file")
    func convertFails() async throws {
        let folder = TemporaryFolder()
        let text = folder.path + "/text"
        try "no picture".write(toFile: text, atomically: true, encoding: .utf8)
        let out = folder.path + "/out.png"
        for arguments in [
            [text, out], [folder.path + "/none", out], [folder.path, out],
            [PictureFiles.photo.path, "/nowhere/out.png"],
            [PictureFiles.photo.path, out, "--resize", "100000x100000!"],
        ] {
            let output = try await Dipper.run(["convert"] + arguments)
            #expect(output.status == 1, "\(arguments)")
            #expect(output.errors.hasPrefix("Error:"), "\(output.errors)")
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["text"])
    }

    #if GIF
        @Test("an animation keeps frames, delays and loops in formats that move; elsewhere the first frame is written")
        func moving() async throws {
            let folder = TemporaryFolder()
            let original = PictureFiles.file("gif/clear.gif")
            let wanted = try PictureFiles.decode(original)
            let durations = try PictureFiles.frames(wanted).map(\.duration)
            #expect(durations.count == 4)
            let moving = [ImageFormat.gif, .webp].filter(CodecRegistry.standard.writable.contains)
            for name in moving.map({ "a." + $0.fileExtension }) {
                let file = folder.path + "/" + name
                #expect(try await Dipper.run(["convert", original.path, file, "--resize", "20x20"]).status == 0)
                let image = try PictureFiles.decode(file)
                #expect(image.size == PixelSize(width: 20, height: 15))
                #expect(image.animation?.loopCount == wanted.animation?.loopCount)
                #expect(try PictureFiles.frames(image).map(\.duration) == durations)
            }
            #expect(try await Dipper.run(["convert", original.path, folder.path + "/a.png"]).status == 0)
            let still = try PictureFiles.decode(folder.path + "/a.png")
            #expect(still.animation == nil)
            #expect(still.withPixels { Array($0) } == wanted.withPixels { Array($0) })
        }
    #endif

    // MARK: sheet

    @Test("sheet puts pictures into cells in the order given, files and URLs alike")
    func sheet() async throws {
        let folder = TemporaryFolder()
        let colors = [Color(hex: 0xc80000), Color(hex: 0x00c800), Color(hex: 0x0000c8)]
        let server = try await PictureFiles.serve(["/green": Image.filled(with: colors[1], 80, 20).png])
        let red = folder.url.appendingPathComponent("red.png")
        let blue = folder.url.appendingPathComponent("blue.png")
        try Image.filled(with: colors[0], 10, 10).png.write(to: red)
        try Image.filled(with: colors[2], 20, 80).png.write(to: blue)
        let list = folder.path + "/list"
        try "# one more\n\(blue.path)\n".write(toFile: list, atomically: true, encoding: .utf8)
        let out = folder.path + "/sheet.png"
        for run in 0..<2 {
            let output = try await Dipper.run([
                "sheet", red.path, server.address("/green"), "--from", list, "--out", out, "--columns", "2", "--cell",
                "40x40",
                "--json", "--cache-dir", folder.path + "/cache",
            ])
            #expect(output.status == 0, "\(output.errors)")
            #expect(output.calls.count == 1)
            #expect(output.calls[0]["sheet"] as? String == out)
            #expect(output.calls[0]["pictures"] as? Int == 3)
            #expect(output.calls[0]["failed"] as? Int == 0)
            let sheet = try PictureFiles.decode(out)
            #expect(output.calls[0]["width"] as? Int == sheet.width)
            #expect(sheet.size == PixelSize(width: 2 * 48 + 8, height: 2 * 48 + 8))
            let centers = [(28, 28), (76, 28), (28, 76)]
            for (center, color) in zip(centers, colors) {
                #expect(sheet[center.0, center.1] == color.premultiplied, "run \(run)")
            }
            // The small one is not enlarged; the wide one keeps its proportions.
            #expect(sheet[28, 28 + 6] == sheet[10, 10])
            #expect(sheet[76 - 19, 28] == colors[1].premultiplied && sheet[76, 28 + 6] == sheet[10, 10])
        }
        #expect(server.requests.count == 1)
        await server.stop()
    }

    @Test("what cannot be shown leaves a cell with a cross, is told, and makes the exit status 1")
    func brokenSheet() async throws {
        let folder = TemporaryFolder()
        let server = try await PictureFiles.serve(["/text": Data("no picture".utf8)])
        let out = folder.path + "/sheet.jpg"
        let output = try await Dipper.run([
            "sheet", server.address("/text"), PictureFiles.photo.path, folder.path + "/none", "--out", out, "--columns",
            "3",
            "--cell", "60x40", "--cache-dir", folder.path + "/cache",
        ])
        #expect(output.status == 1)
        #expect(output.errors.contains(server.address("/text")) && output.errors.contains("/none"))
        #expect(output.lines.count == 1)
        #expect(output.lines[0].contains("1 pictures, 2 missing"))
        let sheet = try PictureFiles.decode(out)
        #expect(sheet.size == PixelSize(width: 3 * 68 + 8, height: 56))
        for center in [38, 38 + 2 * 68] {
            let (mark, cell) = (sheet[center, 28], sheet[center - 25, 14])
            #expect(Int(mark.x) - Int(mark.y) > 40, "red: \(mark)")
            #expect(abs(Int(cell.x) - Int(cell.y)) < 12, "grey: \(cell)")
        }
        await server.stop()
    }
}
