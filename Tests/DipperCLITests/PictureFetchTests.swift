import DipperTesting
import Dipper
import FaultServer
import Foundation
import TestSupport
import Testing

@Suite("The command line fetches pictures in the size and format wanted", .timeLimit(.minutes(2)))
struct PictureFetchTests {
    @Test("get --resize writes a picture that fits, in the format it had, and the line tells of the file")
    func resized() async throws {
        let photo = try Data(contentsOf: PictureFiles.photo)
        let server = try await PictureFiles.serve(["/cup.jpg": photo])
        let folder = TemporaryFolder()
        let url = server.address("/cup.jpg")
        var bodies: [Data] = []
        for run in 0..<2 {
            let output = try await Dipper.run([
                "get", url, "--resize", "120x120", "--json", "--out", folder.path + "/\(run)",
                "--cache-dir", folder.path + "/cache",
            ])
            #expect(output.status == 0, "\(output.errors)")
            let call = try #require(output.calls.first)
            #expect(
                Set(call.keys) == [
                    "url", "queue", "source", "status", "bytes", "milliseconds", "attempts", "width", "height", "file",
                ])
            #expect(call["width"] as? Int == 120)
            #expect(call["height"] as? Int == 80)
            #expect(call["source"] as? String == (run == 0 ? "network" : "disk"))
            let file = try #require(call["file"] as? String)
            #expect(file.hasSuffix("/\(run)/cup.jpg"))
            let body = try Data(contentsOf: URL(fileURLWithPath: file))
            bodies.append(body)
            #expect(call["bytes"] as? Int == body.count)
            #expect(output.summary["bytes"] as? Int == body.count)
            #expect(ImageFormat(sniffing: body) == .jpeg)
            #expect(try CodecRegistry.standard.decode(body).size == PixelSize(width: 120, height: 80))
        }
        #expect(bodies[0] == bodies[1], "nothing is lost on the way through the disk")
        #expect(server.requests.count == 1)
        let copy = folder.path + "/copy"
        _ = try await Dipper.run(["export", url, copy, "--cache-dir", folder.path + "/cache"])
        #expect(try Data(contentsOf: URL(fileURLWithPath: copy)) == photo, "the cache keeps what was fetched")
        await server.stop()
    }

    @Test("a size fits and never enlarges, covers with ^, and is exact with !")
    func sizes() async throws {
        let folder = TemporaryFolder()
        let server = try await PictureFiles.serve(["/a.jpg": Data(contentsOf: PictureFiles.photo)])
        for (argument, width, height) in [
            ("90x90", 90, 60), ("2000x2000", 900, 600), ("90x90^", 135, 90), ("1200x600!", 1200, 600),
        ] {
            let output = try await Dipper.run([
                "get", server.address("/a.jpg"), "--resize", argument, "--json", "--memory-only", "--out",
                folder.path + "/" + argument,
            ])
            #expect(output.status == 0 && output.calls.first?["width"] as? Int == width, "\(output.errors)")
            let image = try PictureFiles.decode(folder.path + "/\(argument)/a.jpg")
            #expect(image.size == PixelSize(width: width, height: height))
        }
        await server.stop()
    }

    @Test("get --format writes that format under names that end so, each URL in a file of its own")
    func formats() async throws {
        let photo = try Data(contentsOf: PictureFiles.photo)
        let red = try Image.filled(with: Color(hex: 0xc80000), 8, 6).png
        let server = try await PictureFiles.serve(["/a.jpg": photo, "/a.png": red, "/b": red, "/v1.2": red])
        let folder = TemporaryFolder()
        let formats = ["PNG", "jpg"]
        for (number, name) in formats.enumerated() {
            let out = folder.path + "/\(number)"
            let urls = ["/a.jpg", "/a.png", "/b", "/v1.2"].map { server.address($0) }
            let output = try await Dipper.run(
                ["get"] + urls + [
                    "--format", name, "--resize", "60x60", "--out", out, "--cache-dir", folder.path + "/cache",
                ])
            #expect(output.status == 0, "\(output.errors)")
            let format = ImageFormat(rawValue: name == "jpg" ? "jpeg" : name.lowercased())
            let names = ["a", "a-2", "b", "v1.2"].map { $0 + "." + format.fileExtension }
            #expect(try FileManager.default.contentsOfDirectory(atPath: out).sorted() == names.sorted())
            for (file, size) in zip(names, [(60, 40), (8, 6), (8, 6), (8, 6)]) {
                let bytes = try Data(contentsOf: URL(fileURLWithPath: out + "/" + file))
                #expect(ImageFormat(sniffing: bytes) == format)
                #expect(try ImageInfo(bytes).size == PixelSize(width: size.0, height: size.1))
            }
        }
        #expect(server.requests.count == 4, "one fetch a URL, whatever is made of it")
        await server.stop()
    }

    @Test("what is no picture fails alone, with its error in the line and no file")
    func undecodable() async throws {
        let photo = try Data(contentsOf: PictureFiles.photo)
        let server = try await PictureFiles.serve([
            "/text.jpg": Data("no picture".utf8), "/cut.jpg": photo.prefix(300), "/good.jpg": photo,
        ])
        let folder = TemporaryFolder()
        let urls = ["/text.jpg", "/cut.jpg", "/good.jpg", "/missing.jpg"].map { server.address($0) }
        let output = try await Dipper.run(
            ["get"] + urls + [
                "--resize", "50x50", "--json", "--out", folder.path + "/out", "--cache-dir", folder.path + "/cache",
            ])
        #expect(output.status == 1)
        #expect(output.summary["failed"] as? Int == 3)
        let errors = Dictionary(
            uniqueKeysWithValues: output.calls.map { ($0["url"] as? String ?? "", $0["error"] as? String) })
        #expect(errors[urls[0]]??.hasPrefix("unsupported format") == true)
        #expect(errors[urls[1]]??.hasPrefix("undecodable") == true)
        #expect(errors[urls[2]] == .some(nil))
        #expect(errors[urls[3]]??.contains("404") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/out") == ["good.jpg"])
        await server.stop()
    }

    @Test("prefetch and batch take sizes too, and a get after a prefetch needs no network")
    func queues() async throws {
        let server = try await PictureFiles.serve(["/a.jpg": Data(contentsOf: PictureFiles.photo)])
        let folder = TemporaryFolder()
        let more = ["--resize", "60x60", "--json", "--cache-dir", folder.path + "/cache"]
        let url = server.address("/a.jpg")
        let prefetched = try await Dipper.run(["prefetch", url] + more)
        #expect(prefetched.calls.first?["queue"] as? String == "slow")
        #expect(prefetched.calls.first?["width"] as? Int == 60)
        let script = "slow \(url)\nget \(url)\nwait\nget \(server.address("/none"))\ncancel \(url)\n"
        let batch = try await Dipper.run(["batch"] + more, input: script)
        #expect(batch.status == 1)
        #expect(batch.calls.count == 3)
        #expect(batch.calls.filter { $0["height"] as? Int == 40 }.count == 2)
        #expect(server.requests.map(\.path) == ["/a.jpg", "/none"])
        // The sizes of a picture go with it.
        let cache = ["--json", "--cache-dir", folder.path + "/cache"]
        #expect(try await Dipper.run(["stats"] + cache).calls.first?["entries"] as? Int == 2)
        #expect(try await Dipper.run(["remove", url] + cache).status == 0)
        #expect(try await Dipper.run(["stats"] + cache).calls.first?["entries"] as? Int == 0)
        await server.stop()
    }

    #if GIF
        @Test("an animation keeps its frames when it is made smaller, also from the disk; as PNG it is the first")
        func moving() async throws {
            let original = PictureFiles.file("gif/keep.gif")
            let server = try await PictureFiles.serve(["/keep.gif": Data(contentsOf: original)])
            let folder = TemporaryFolder()
            for run in 0..<2 {
                let output = try await Dipper.run([
                    "get", server.address("/keep.gif"), "--resize", "20x20", "--out", folder.path + "/\(run)",
                    "--cache-dir", folder.path + "/cache",
                ])
                #expect(output.status == 0, "\(output.errors)")
                let image = try PictureFiles.decode(folder.path + "/\(run)/keep.gif")
                #expect(image.size == PixelSize(width: 20, height: 15))
                let frames = try PictureFiles.frames(image)
                #expect(
                    frames.map(\.duration) == (try PictureFiles.frames(PictureFiles.decode(original))).map(\.duration))
                #expect(image.animation?.loopCount == 0)
            }
            let still = try await Dipper.run([
                "get", server.address("/keep.gif"), "--format", "png", "--out", folder.path, "--cache-dir",
                folder.path + "/cache",
            ])
            #expect(still.status == 0, "\(still.errors)")
            #expect(try PictureFiles.decode(folder.path + "/keep.png").animation == nil)
            #expect(server.requests.count == 1)
            await server.stop()
        }
    #endif
}
