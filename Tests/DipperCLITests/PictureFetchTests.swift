import FaultServer
import TestSupport
import Testing

@Suite("The command line fetches pictures in the size and format wanted", .timeLimit(.minutes(2)))
struct PictureFetchTests {
    @Test("get --resize writes a picture that fits, in the format it had, and the line tells of the file")
    func resized() async throws {
        let photo = try PictureFiles.photoBytes
        let dipper = try await Dipper(["/cup.jpg": photo])
        let url = dipper.url("/cup.jpg")
        var bodies: [Data] = []
        for (run, source) in ["network", "disk"].enumerated() {
            let output = try await dipper.run(
                "get", url, "--resize", "120x120", "--json", "--out", dipper.path + "/\(run)")
            #expect(output.status == 0, "\(output.errors)")
            let call = try #require(output.calls.first)
            let keys = "url queue source status bytes milliseconds attempts width height file"
            #expect(call.keys.sorted() == keys.split(separator: " ").map(String.init).sorted())
            #expect(call["width", "height", "source"] == [120, 80, .text(source)])
            #expect(call["file"]?.text?.hasSuffix("/\(run)/cup.jpg") == true)
            let body = try dipper.file("\(run)/cup.jpg")
            bodies.append(body)
            #expect([call["bytes"], output.summary["bytes"]] == [.number(body.count), .number(body.count)])
            #expect(ImageFormat(sniffing: body) == .jpeg)
            #expect(try CodecRegistry.standard.decode(body).size == PixelSize(width: 120, height: 80))
        }
        #expect(bodies[0] == bodies[1], "nothing is lost on the way through the disk")
        #expect(dipper.server.requests.count == 1)
        _ = try await dipper.run("export", url, dipper.path + "/copy")
        #expect(try dipper.file("copy") == photo, "the cache keeps what was fetched")
    }

    @Test("a size fits and never enlarges, covers with ^, and is exact with !")
    func sizes() async throws {
        let dipper = try await Dipper(["/a.jpg": PictureFiles.photoBytes])
        for (argument, width, height) in [
            ("90x90", 90, 60), ("2000x2000", 900, 600), ("90x90^", 135, 90), ("1200x600!", 1200, 600),
        ] {
            let out = dipper.path + "/" + argument
            let output = try await Dipper.run(
                ["get", dipper.url("/a.jpg"), "--resize", argument, "--json", "--memory-only", "--out", out])
            #expect(output.status == 0 && output.calls.first?["width"] == .number(width), "\(output.errors)")
            #expect(try PictureFiles.decode(out + "/a.jpg").size == PixelSize(width: width, height: height))
        }
    }

    @Test("get --widths takes the URL that is wide enough for the size, or for --width")
    func widths() async throws {
        let photo = try PictureFiles.photoBytes
        let dipper = try await Dipper(["/120.jpg": photo, "/600.jpg": photo, "/900.jpg": photo])
        let template = dipper.url("/0.jpg").replacing("/0.jpg", with: "/{width}.jpg")
        for (options, width) in [
            (["--resize", "90x90"], 120), (["--resize", "90x90^"], 600), (["--width", "601"], 900), ([], 900),
        ] {
            let output = try await dipper.run(["get", template, "--widths", "120,600,900", "--json"] + options)
            #expect(
                output.status == 0 && output.calls.first?["url"] == .text(dipper.url("/\(width).jpg")),
                "\(output.errors)")
        }
        #expect(dipper.server.requests.count == 3)
        #expect(try await dipper.run("get", template, "--widths", "120,x").status == 64)
    }

    @Test("get --format writes that format under names that end so, each URL in a file of its own")
    func formats() async throws {
        let red = try Image.filled(with: Color(hex: 0xc80000), 8, 6).png
        let dipper = try await Dipper(["/a.jpg": PictureFiles.photoBytes, "/a.png": red, "/b": red, "/v1.2": red])
        let urls = ["/a.jpg", "/a.png", "/b", "/v1.2"].map(dipper.url)
        for (name, format) in [("PNG", ImageFormat.png), ("jpg", .jpeg)] {
            let out = dipper.path + "/" + name
            let output = try await dipper.run(
                ["get"] + urls + ["--format", name, "--resize", "60x60", "--out", out])
            #expect(output.status == 0, "\(output.errors)")
            let names = ["a", "a-2", "b", "v1.2"].map { $0 + "." + format.fileExtension }
            #expect(try FileManager.default.contentsOfDirectory(atPath: out).sorted() == names.sorted())
            for (file, size) in zip(names, [(60, 40), (8, 6), (8, 6), (8, 6)]) {
                let bytes = try dipper.file(name + "/" + file)
                #expect(ImageFormat(sniffing: bytes) == format)
                #expect(try ImageInfo(bytes).size == PixelSize(width: size.0, height: size.1))
            }
        }
        #expect(dipper.server.requests.count == 4, "one fetch a URL, whatever is made of it")
    }

    @Test("the picture is kept in the format that was asked for, and written byte for byte the next time")
    func keptFormat() async throws {
        let dipper = try await Dipper(["/a.png": PictureFiles.decode(PictureFiles.photo).png])
        var bodies: [Data] = []
        for (run, source) in ["network", "disk"].enumerated() {
            let output = try await dipper.run(
                "get", dipper.url("/a.png"), "--format", "jpg", "--resize", "60x60", "--json", "--out",
                dipper.path + "/\(run)")
            #expect(output.status == 0 && output.calls.first?["source"] == .text(source), "\(output.errors)")
            bodies.append(try dipper.file("\(run)/a.jpg"))
        }
        #expect(bodies[0] == bodies[1])
        // Nothing of one format is lost in another.
        let png = try await dipper.run(
            "get", dipper.url("/a.png"), "--format", "png", "--resize", "60x60", "--out", dipper.path + "/png")
        #expect(png.status == 0, "\(png.errors)")
        let (exact, lossy) = (try dipper.file("png/a.png"), bodies[0])
        let expected = try await PictureFiles.decode(PictureFiles.photo).processed(
            by: .downsample(width: 60, height: 60))
        #expect(try Image(data: exact).pixels == expected.pixels && Image(data: lossy).pixels != expected.pixels)
    }

    @Test("without a size the picture is encoded anew each time, with what its file says left out")
    func formatAlone() async throws {
        let dipper = try await Dipper(["/a.jpg": PictureFiles.photoBytes])
        var bodies: [Data] = []
        for run in 0..<2 {
            let output = try await dipper.run(
                "get", dipper.url("/a.jpg"), "--format", "jpg", "--out", dipper.path + "/\(run)")
            #expect(output.status == 0, "\(output.errors)")
            bodies.append(try dipper.file("\(run)/a.jpg"))
        }
        #expect(try bodies[0] == bodies[1] && bodies[0] != PictureFiles.photoBytes)
    }

    @Test("what is no picture fails alone, with its error in the line and no file")
    func undecodable() async throws {
        let photo = try PictureFiles.photoBytes
        let dipper = try await Dipper([
            "/text.jpg": Data("no picture".utf8), "/cut.jpg": photo.prefix(300), "/good.jpg": photo,
        ])
        let urls = ["/text.jpg", "/cut.jpg", "/good.jpg", "/missing.jpg"].map(dipper.url)
        let output = try await dipper.run(
            ["get"] + urls + ["--resize", "50x50", "--json", "--out", dipper.path + "/out"])
        #expect(output.status == 1 && output.summary["failed"] == 3)
        let errors = urls.map { url in output.calls.first { $0["url"]?.text == url }?["error"]?.text }
        #expect(errors[0]?.hasPrefix("unsupported format") == true && errors[1]?.hasPrefix("undecodable") == true)
        #expect(errors[2] == nil && errors[3]?.contains("404") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: dipper.path + "/out") == ["good.jpg"])
    }

    @Test("prefetch and batch take sizes too, and a get after a prefetch needs no network")
    func queues() async throws {
        let dipper = try await Dipper(["/a.jpg": PictureFiles.photoBytes])
        let url = dipper.url("/a.jpg")
        let prefetched = try await dipper.run("prefetch", url, "--resize", "60x60", "--json")
        #expect(prefetched.calls.first?["queue", "width"] == ["slow", 60])
        let script = "slow \(url)\nget \(url)\nwait\nget \(dipper.url("/none"))\ncancel \(url)\n"
        let batch = try await dipper.run("batch", "--resize", "60x60", "--json", input: script)
        #expect(batch.status == 1 && batch.calls.count == 3)
        #expect(batch.calls.count { $0["height"] == 40 } == 2)
        #expect(dipper.server.requests.map(\.path) == ["/a.jpg", "/none"])
        // The sizes of a picture go with it.
        #expect(try await dipper.run("stats", "--json").calls.first?["entries"] == 2)
        #expect(try await dipper.run("remove", url).status == 0)
        #expect(try await dipper.run("stats", "--json").calls.first?["entries"] == 0)
    }

    #if GIF
        @Test("an animation keeps its frames when it is made smaller, also from the disk; as JPEG it is the first")
        func moving() async throws {
            let original = PictureFiles.file("gif/keep.gif")
            let dipper = try await Dipper(["/keep.gif": Data(contentsOf: original)])
            let get = ["get", dipper.url("/keep.gif"), "--out", dipper.path]
            for run in 0..<2 {
                let output = try await dipper.run(get + ["--resize", "20x20"])
                #expect(output.status == 0, "run \(run): \(output.errors)")
                let image = try PictureFiles.decode(dipper.path + "/keep.gif")
                #expect(image.size == PixelSize(width: 20, height: 15) && image.animation?.loopCount == 0)
                let durations = try PictureFiles.durations(PictureFiles.decode(original))
                #expect(try PictureFiles.durations(image) == durations)
                try FileManager.default.removeItem(atPath: dipper.path + "/keep.gif")
            }
            let moving = try await dipper.run(get + ["--format", "png"])
            #expect(moving.status == 0, "\(moving.errors)")
            #expect(try PictureFiles.decode(dipper.path + "/keep.png").animation?.frameCount == 4)
            let still = try await dipper.run(get + ["--format", "jpg"])
            #expect(still.status == 0, "\(still.errors)")
            #expect(try PictureFiles.decode(dipper.path + "/keep.jpg").animation == nil)
            #expect(dipper.server.requests.count == 1)
        }
    #endif
}
