import FaultServer
import TestSupport
import Testing

@Suite("The command line tells of pictures, converts them and puts them on sheets", .timeLimit(.minutes(2)))
struct PictureCommandTests {
    private let folder = TemporaryFolder()

    // MARK: info

    @Test("info tells what headers say, of files, without a cache folder")
    func info() async throws {
        let dipper = try await Dipper()
        let files = ["profile.jpg", "progressive.jpg", "interlaced.png", "moving-3.gif"].map {
            PictureFiles.file("headers/" + $0)
        }
        let output = try await dipper.run(["info"] + files.map(\.path) + ["--json"])
        #expect(output.status == 0, "\(output.errors)")
        #expect(output.calls.map { $0["file"]?.text } == files.map(\.path), "in the order given")
        for (call, file) in zip(output.calls, files) {
            let bytes = try Data(contentsOf: file)
            let info = try ImageInfo(bytes)
            let keys = "file type width height frames loops orientation bitDepth alpha progressive profile bytes"
            #expect(call.keys.sorted() == keys.split(separator: " ").map(String.init).sorted())
            #expect(call["type", "progressive"] == [.text(info.format.rawValue), .flag(info.isProgressive)])
            #expect(call["profile"] == .flag(info.hasColorProfile))
            #expect(
                ["width", "height", "frames", "loops", "bytes"].map { call[$0]?.number } == [
                    info.size?.width, info.size?.height, info.frameCount, info.loopCount, bytes.count,
                ])
        }
        #expect(output.calls.map { $0["profile"] } == [true, false, false, false])
        #expect(output.calls.map { $0["progressive"] } == [false, true, true, false])
        #expect(output.calls.last?["frames", "loops"] == [3, 4])
        #expect(!FileManager.default.fileExists(atPath: dipper.path + "/cache"))
        let text = try await Dipper.run(["info", files[3].path])
        #expect(text.lines.count == 1)
        #expect(text.lines[0].hasPrefix("\(files[3].path): gif 40x24, 3 frames shown 4 times"))
    }

    @Test("info of a URL goes through the cache, and what is no picture fails alone")
    func infoOfURLs() async throws {
        let photo = try PictureFiles.photoBytes
        let dipper = try await Dipper(["/a": photo, "/text": Data("no picture".utf8)])
        let (urls, file) = (["/a", "/text", "/none"].map(dipper.url), dipper.path + "/none")
        for _ in 0..<2 {
            let output = try await dipper.run(["info"] + urls + [file, "--json"])
            #expect(output.status == 1 && output.calls.count == 4)
            #expect(output.calls[0]["url", "width", "bytes"] == [.text(urls[0]), 900, .number(photo.count)])
            #expect(output.calls[1]["error"]?.text?.hasPrefix("unsupported format") == true)
            #expect(output.calls[2]["error"]?.text?.contains("404") == true)
            #expect(output.calls[3]["file"] == .text(file) && output.calls[3]["error"] != nil)
        }
        #expect(dipper.server.requests(to: "/a").count == 1)
        let offline = try await dipper.run("info", dipper.url("/b"), "--cache-only")
        #expect(offline.status == 1 && offline.errors.contains(dipper.url("/b")))
    }

    @Test("info --hashes tells the placeholders of files and URLs")
    func hashes() async throws {
        let dipper = try await Dipper(["/a": try PictureFiles.photoBytes])
        let sources = [dipper.url("/a"), PictureFiles.photo.path]
        let output = try await dipper.run(["info"] + sources + ["--json", "--hashes"])
        #expect(output.status == 0 && output.calls.count == 2, "\(output.errors)")
        let small = DecodeOptions(target: TargetSize(width: 100, height: 100))
        let image = try CodecRegistry.standard.decode(PictureFiles.photoBytes, small)
        let color = "#" + image.averageColor.hex.prefix(6)
        for call in output.calls {
            #expect(try call["thumbHash"]?.text == image.thumbHash() && call["blurHash"]?.text == image.blurHash())
            #expect(call["color"]?.text == color && call["width"] == 900)
        }
        #expect(try await dipper.run("info", sources[1], "--hashes").text.contains(", ThumbHash "))
    }

    // MARK: convert

    @Test("convert writes the format that the name or --format says, with the same pixels where nothing is lost")
    func convert() async throws {
        func converted(_ source: String, _ name: String, _ options: String...) async throws -> Data {
            let file = folder.path + "/" + name
            #expect(try await Dipper.run(["convert", source, file] + options).status == 0, "\(name)")
            return try Data(contentsOf: URL(fileURLWithPath: file))
        }
        let photo = PictureFiles.photo.path, small = folder.path + "/a.png"
        let image = try CodecRegistry.standard.decode(await converted(photo, "a.png", "--resize", "90x90"))
        let target = TargetSize(width: 90, height: 90)
        let wanted = try CodecRegistry.standard.decode(PictureFiles.photoBytes, DecodeOptions(target: target))
        #expect(image.size == PixelSize(width: 90, height: 60) && image.pixels == wanted.pixels)
        var sizes: [Int] = []
        for quality in ["10", "50", "95"] {
            let bytes = try await converted(small, "\(quality).jpeg", "--quality", quality)
            #expect(ImageFormat(sniffing: bytes) == .jpeg)
            sizes.append(bytes.count)
        }
        #expect(sizes == sizes.sorted() && sizes[0] < sizes[2])
        let named = try await converted(photo, "no-ending", "--format", "png", "--resize", "9x9")
        #expect(ImageFormat(sniffing: named) == .png)
        #if WebP
            #expect(try ImageInfo(await converted(small, "a.webp")).format == .webp)
        #endif
    }

    @Test("info tells the largest size of an icon, and convert takes the picture that fits the size asked for")
    func icons() async throws {
        let icon = PictureFiles.file("ico/sizes.ico").path
        let info = try await Dipper.run(["info", icon, "--json"])
        #expect(info.status == 0 && info.calls.map { $0["type", "width", "height"] } == [["ico", 256, 256]])
        for (size, color) in [("16x16", 0xFF0000), ("32x32", 0x00FF00), ("48x48", 0x0000FF)] as [(String, UInt32)] {
            let file = folder.path + "/\(size).png"
            #expect(try await Dipper.run(["convert", icon, file, "--resize", size]).status == 0)
            let image = try CodecRegistry.standard.decode(Data(contentsOf: URL(fileURLWithPath: file)))
            #expect("\(image.size)" == size)
            #expect(image.pixels == Image.filled(with: Color(hex: color), image.width, image.height).pixels)
        }
    }

    @Test("convert reads standard input and writes standard output")
    func pipe() async throws {
        let output = try await ChildProcess(
            Dipper.executable, ["convert", "-", "-", "--format", "png", "--resize", "30x30"],
            input: FileHandle(forReadingFrom: PictureFiles.photo)
        ).output()
        #expect(output.status == 0 && ImageFormat(sniffing: output.data) == .png)
        #expect(try CodecRegistry.standard.decode(output.data).size == PixelSize(width: 30, height: 20))
    }

    @Test("convert fails on what is no picture, is not there, or cannot be written, and leaves no file")
    func convertFails() async throws {
        let (text, out) = (try folder.place("no picture", at: "text").path, folder.path + "/out.png")
        for arguments in [
            [text, out], [folder.path + "/none", out], [folder.path, out],
            [PictureFiles.photo.path, "/nowhere/out.png"],
            [PictureFiles.photo.path, out, "--resize", "100000x100000!"],
        ] {
            let output = try await Dipper.run(["convert"] + arguments)
            #expect(output.status == 1 && output.errors.hasPrefix("dipper: "), "\(arguments): \(output.errors)")
            let named = arguments.contains("/nowhere/out.png") ? "/nowhere/out.png" : arguments[0]
            #expect(output.errors.split(separator: "\n").count == 1 && output.errors.contains(named))
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["text"])
    }

    #if GIF
        @Test("an animation keeps frames, delays and loops in formats that move; elsewhere the first frame is written")
        func moving() async throws {
            let original = PictureFiles.file("gif/clear.gif")
            let wanted = try PictureFiles.decode(original)
            let durations = try PictureFiles.durations(wanted)
            #expect(durations.count == 4)
            for format in [ImageFormat.gif, .webp, .png] where CodecRegistry.standard.writable.contains(format) {
                let file = folder.path + "/a." + format.fileExtension
                #expect(try await Dipper.run(["convert", original.path, file, "--resize", "20x20"]).status == 0)
                let image = try PictureFiles.decode(file)
                #expect(image.size == PixelSize(width: 20, height: 15))
                #expect(image.animation?.loopCount == wanted.animation?.loopCount)
                #expect(try PictureFiles.durations(image) == durations)
            }
            #expect(try await Dipper.run(["convert", original.path, folder.path + "/b.png"]).status == 0)
            #expect(try PictureFiles.decode(folder.path + "/b.png").pixels == wanted.pixels)
            #expect(try await Dipper.run(["convert", original.path, folder.path + "/a.jpg"]).status == 0)
            #expect(try PictureFiles.decode(folder.path + "/a.jpg").animation == nil)
        }
    #endif

    // MARK: sheet

    @Test("sheet puts pictures into cells in the order given, files and URLs alike")
    func sheet() async throws {
        let colors = [Color(hex: 0xc80000), Color(hex: 0x00c800), Color(hex: 0x0000c8)]
        let dipper = try await Dipper(["/green": Image.filled(with: colors[1], 80, 20).png])
        let red = try dipper.folder.place(Image.filled(with: colors[0], 10, 10).png, at: "red.png").path
        let blue = try dipper.folder.place(Image.filled(with: colors[2], 20, 80).png, at: "blue.png").path
        let list = try dipper.folder.place("# one more\n\(blue)\n", at: "list").path
        let out = dipper.path + "/sheet.png"
        for run in 0..<2 {
            let output = try await dipper.run(
                "sheet", red, dipper.url("/green"), "--from", list, "--out", out, "--columns", "2", "--cell", "40x40",
                "--json")
            #expect(output.status == 0 && output.calls.count == 1, "\(output.errors)")
            let sheet = try PictureFiles.decode(out)
            #expect(output.calls[0]["sheet", "pictures", "failed"] == [.text(out), 3, 0])
            #expect(output.calls[0]["width"] == .number(sheet.width))
            #expect(sheet.size == PixelSize(width: 2 * 48 + 8, height: 2 * 48 + 8))
            for (center, color) in zip([(28, 28), (76, 28), (28, 76)], colors) {
                #expect(sheet[center.0, center.1] == color.premultiplied, "run \(run)")
            }
            // The small one is not enlarged; the wide one keeps its proportions.
            #expect(sheet[28, 28 + 6] == sheet[10, 10])
            #expect(sheet[76 - 19, 28] == colors[1].premultiplied && sheet[76, 28 + 6] == sheet[10, 10])
        }
        #expect(dipper.server.requests.count == 1)
    }

    @Test("what cannot be shown leaves a cell with a cross, is told, and makes the exit status 1")
    func brokenSheet() async throws {
        let dipper = try await Dipper(["/text": Data("no picture".utf8)])
        let (text, none, out) = (dipper.url("/text"), dipper.path + "/none", dipper.path + "/sheet.jpg")
        let output = try await dipper.run(
            "sheet", text, PictureFiles.photo.path, none, "--out", out, "--columns", "3", "--cell", "60x40")
        #expect(output.status == 1 && output.errors.contains(text) && output.errors.contains("/none"))
        #expect(output.lines.count == 1 && output.lines[0].contains("1 pictures, 2 missing"))
        let sheet = try PictureFiles.decode(out)
        #expect(sheet.size == PixelSize(width: 3 * 68 + 8, height: 56))
        for center in [38, 38 + 2 * 68] {
            let (mark, cell) = (sheet[center, 28], sheet[center - 25, 14])
            #expect(Int(mark.x) - Int(mark.y) > 40, "red: \(mark)")
            #expect(abs(Int(cell.x) - Int(cell.y)) < 12, "grey: \(cell)")
        }
    }
}
