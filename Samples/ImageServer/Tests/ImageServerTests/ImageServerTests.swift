import Dipper
import DipperTesting
import Foundation
import NIOCore
import NIOEmbedded
import Testing

@testable import ImageServer

@Suite("A server of pictures", .timeLimit(.minutes(3)))
struct ImageServerTests {
    private let browser: HTTPHeaders = ["Accept": "image/avif,image/webp,image/png,*/*;q=0.8"]

    // MARK: Pictures

    @Test("a picture has the size, and of the formats that the client names the smallest that can be written")
    func formats() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let path = "format:auto/\(origin.url)/picture/1"
        let best: ImageFormat = CodecRegistry.standard.writable.contains(.avif) ? .avif : .webp
        for (fields, format) in [
            (browser, best), (["Accept": "image/webp"], .webp), (["Accept": "image/webp;q=0, image/png"], .jpeg),
            (["Accept": "*/*"], .jpeg), ([:], .jpeg),
        ] as [(HTTPHeaders, ImageFormat)] {
            let answer = try await server.get("fit:400x400/\(path)", fields)
            #expect(answer.status == 200 && answer.headers["Content-Type"] == format.mimeType)
            #expect(ImageFormat(sniffing: answer.body) == format)
            #expect(answer.headers["Vary"] == "Accept")
            let image = try Image(data: answer.body)
            #expect(image.size == PixelSize(width: 400, height: 300))
        }
        for (options, format, size) in [
            ("fit:200x/format:png", ImageFormat.png, PixelSize(width: 200, height: 150)),
            ("fill:100x100/format:jpeg/quality:40", .jpeg, PixelSize(width: 100, height: 100)),
            ("format:webp", .webp, PixelSize(width: 800, height: 600)),
            ("fit:4000x4000/format:webp", .webp, PixelSize(width: 800, height: 600)),
        ] {
            let answer = try await server.get("\(options)/\(origin.url)/picture/1", browser)
            #expect(answer.status == 200 && answer.headers["Vary"] == nil)
            #expect(ImageFormat(sniffing: answer.body) == format)
            let image = try Image(data: answer.body)
            #expect(image.size == size, "\(options)")
        }
        #expect(origin.requests == ["/picture/1"])
        let head = try Program(
            "/usr/bin/curl", ["-sSI", server.address + server.signed("format:webp/\(origin.url)/picture/1")])
        #expect(await head.line(with: "HTTP/1.1 200") != nil)
        #expect(await head.line(with: "Content-Length: ")?.contains("Content-Length: 0") == false)
        #expect(await head.status() == 0)
        await server.stop()
        await origin.stop()
    }

    @Test("an answer is fresh for as long as its source, and a client that has it gets a 304")
    func conditions() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let path = "fit:100x100/\(origin.url)/picture/1"
        let answer = try await server.get(path)
        let tag = try #require(answer.headers["ETag"])
        let control = try #require(answer.headers["Cache-Control"])
        let age = try #require(Int(control.replacing("public, max-age=", with: "")))
        #expect((500...600).contains(age))
        for known in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
            let second = try await server.get(path, ["If-None-Match": known])
            #expect(second.status == 304 && second.body.isEmpty && second.headers["ETag"] == tag, "\(known)")
            #expect(second.headers["Vary"] == "Accept" && second.headers["Cache-Control"] != nil)
        }
        let other = try await server.get(path, ["If-None-Match": "\"other\""])
        #expect(other.status == 200 && other.body == answer.body && other.headers["ETag"] == tag)
        let webp = try await server.get(path, ["Accept": "image/webp"])
        #expect(webp.headers["ETag"] != tag)
        // For clients, what the source says to them; for servers in between, what it says to those.
        let shared = try await server.get("fit:100x100/\(origin.url)/shared").headers["Cache-Control"]
        let ages = try #require(shared?.wholeMatch(of: /public, max-age=(\d+), s-maxage=(\d+)/))
        #expect((30...60).contains(Int(ages.1) ?? 0) && (500...600).contains(Int(ages.2) ?? 0))
        let unkept = try await server.get("fit:100x100/\(origin.url)/unkept")
        #expect(unkept.status == 200 && unkept.headers["Cache-Control"] == "no-store")
        await server.stop()
        await origin.stop()
    }

    @Test(
        "a picture is asked for again when its source is no longer fresh, and is not made again if it has not changed")
    func renewed() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let first = try await server.get("fit:100x100/\(origin.url)/renewed")
        let second = try await server.get("fit:100x100/\(origin.url)/renewed")
        #expect(
            first.status == 200 && second.body == first.body && first.headers["Cache-Control"] == "public, max-age=0")
        #expect(origin.requests == ["/renewed", "/renewed"])
        #expect(server.server.service.cache.statistics.revalidatedAnswers == 1)
        // Without the origin, an old picture is better than none.
        await origin.stop()
        let third = try await server.get("fit:100x100/\(origin.url)/renewed")
        #expect(third.status == 200 && third.body == first.body)
        await server.stop()
    }

    // MARK: Refusals

    @Test("without the right signature nothing is fetched")
    func signatures() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let path = "fit:100x100/\(origin.url)/picture/1"
        let right = try #require(server.server.signer.signature(of: path))
        let other = Signer(keys: [Array("another key, not of this server".utf8)], allowsUnsigned: false)
        // Before the path is known, and after that.
        for isKnown in [false, true] {
            for signature in ["unsafe", "x", String(right.dropLast()), right + "=", other.signature(of: path) ?? ""] {
                let answer = try await server.get(unsigned: "/\(signature)/\(path)")
                #expect(answer.status == 403, "\(signature)")
            }
            #expect(try await server.get(unsigned: "/\(right)/\(path)0").status == 403)
            #expect(try await server.get(unsigned: "/\(right)").status == 404)
            #expect(origin.requests.isEmpty != isKnown)
            #expect(try await server.get(unsigned: "/\(right)/\(path)").status == 200)
        }
        // The second key of the file.
        let old = Signer(keys: [Array("an older key of the tests".utf8)], allowsUnsigned: false)
        #expect(try await server.get(unsigned: "/\(old.signature(of: path) ?? "")/\(path)").status == 200)
        // The value that openssl gives.
        let known = Signer(keys: [Array("0123456789abcdef".utf8)], allowsUnsigned: false)
        #expect(known.signature(of: "fit:1x1/http://a.test/") == "PRbWaFr5JENi-ENaI3HcY5qguldPAHO6vrLU7oij1L8")
        await server.stop()
        let open = try await TestServer(["--unsafe"])
        #expect(try await open.get(unsigned: "/unsafe/\(path)").status == 200)
        await open.stop()
        await origin.stop()
    }

    @Test("a path is read and its signature checked once, as long as it is among the latest and not too long")
    func knownPaths() throws {
        let known = KnownPaths()
        var reads = 0
        func ask(_ path: String) throws -> KnownPaths.Path {
            try known.path(path[...]) { text throws(Refusal) in
                reads += 1
                return try PictureQuery(text.drop { $0 != "/" }.dropFirst(), PictureQuery.Limits())
            }
        }
        func path(_ number: Int, length: Int = 0) -> String {
            let path = "signature/fit:10x10/http://a.test/\(number)"
            return path + String(repeating: "x", count: max(0, length - path.utf8.count))
        }
        let first = try ask(path(0))
        #expect(try ask(path(0)) === first && reads == 1)
        #expect(throws: Refusal.self) { try ask("signature/fit:10x10") }
        #expect(throws: Refusal.self) { try ask("signature/fit:10x10") }
        #expect(reads == 3)
        for length in [512, 513] { for _ in 0..<2 { _ = try ask(path(1, length: length)) } }
        #expect(reads == 6)
        for number in 2..<5_000 { #expect(try ask(path(number)).query.source.path == "/\(number)") }
        #expect(try ask(path(4_999)) === ask(path(4_999)) && ask(path(0)) !== first)
    }

    @Test("private addresses, other hosts, files and paths that make no sense are refused")
    func refused() async throws {
        let (origin, server) = (try await Origin(), try await TestServer(allowsPrivate: false))
        let port = try #require(origin.url.split(separator: ":").last)
        for host in [
            "127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[2a00:1450::5efe:127.0.0.1]", "0x7f.1", "10.0.0.1",
        ] {
            let url = "http://\(host):\(port)/picture/1".addingPercentEncoding(withAllowedCharacters: .alphanumerics)
            let answer = try await server.get("fit:100x100/\(url ?? "")")
            #expect(answer.status == 403 && answer.text == "the picture: address refused\n", "\(host)")
        }
        for path in [
            "fit:0x0/http://a.test/", "fit:5000x100/http://a.test/", "fit:x/http://a.test/", "fill:100x/http://a.test/",
            "fit:-1x5/http://a.test/", "fit:1e3x5/http://a.test/", "format:exe/http://a.test/",
            "quality:0/http://a.test/",
            "blur:9/http://a.test/", "/http://a.test/", "file:///etc/passwd", "http:///", "http://user:word@a.test/",
            "fit:100x100", "ftp://a.test/",
        ] {
            let answer = try await server.get(path)
            #expect(answer.status == 400, "\(path)")
        }
        await server.stop()
        let chosen = try await TestServer(["--allow-host", "*.example.org", "--allow-host", "127.0.0.1"])
        for host in ["a.test", "example.org", "example.org.a.test", "aexample.org"] {
            #expect(try await chosen.get("http://\(host)/").status == 403, "\(host)")
        }
        #expect(origin.requests.isEmpty)
        #expect(try await chosen.get("fit:10x10/\(origin.url)/picture/1").status == 200)
        // It may lead to another host.
        #expect(try await chosen.get("fit:10x10/\(origin.url)/redirect").status == 502)
        await chosen.stop()
        await origin.stop()
    }

    @Test("what is too large, is no picture, or cannot be had, has a status of its own")
    func failures() async throws {
        let (origin, server) = (try await Origin(), try await TestServer(["--max-body", "1", "--max-pixels", "1"]))
        // Only for an origin that never answers: a busy machine may be slow.
        let hasty = try await TestServer(["--timeout", "1"])
        let closed = try await Origin()
        await closed.stop()
        for (url, status) in [
            ("\(origin.url)/bytes/2000000", 413), ("\(origin.url)/large", 422), ("\(origin.url)/text", 422),
            ("\(origin.url)/status/404", 404), ("\(origin.url)/status/410", 404), ("\(origin.url)/status/403", 502),
            ("\(origin.url)/status/500", 502), ("\(closed.url)/picture", 502),
        ] {
            let answer = try await server.get("fit:10x10/\(url)")
            #expect(answer.status == status && answer.headers["Cache-Control"] == "no-store", "\(url)")
        }
        #expect(try await hasty.get("fit:10x10/\(origin.url)/held").status == 504)
        await hasty.stop()
        for status in [429, 503] {
            // A 503 would have a load balancer take this server for the busy one.
            let busy = try await server.get("fit:10x10/\(origin.url)/status/\(status)")
            #expect(busy.status == 502 && busy.headers["Retry-After"] == "7", "\(status)")
        }
        await server.stop()
        await origin.stop()
    }

    @Test("the log has no secrets of a path, however its URL is spelled")
    func secrets() throws {
        let url = "https://a.test/b.jpg?token=abcdef&v=1"
        for text in [url, try #require(url.addingPercentEncoding(withAllowedCharacters: .alphanumerics))] {
            let logged = try PictureQuery("fit:1x1/format:auto/\(text)", PictureQuery.Limits()).logText
            #expect(logged.hasPrefix("fit:1x1/format:auto/https://a.test/b.jpg?token="), "\(logged)")
            #expect(logged.hasSuffix("&v=1") && !logged.contains("abcdef"), "\(logged)")
        }
    }

    // MARK: Load

    @Test("beyond the limit of answers that are being made, new ones end with 503; pictures that are kept do not count")
    func overload() async throws {
        let (origin, server) = (try await Origin(), try await TestServer(["--max-making", "2"]))
        let kept = "fit:10x10/\(origin.url)/picture/1"
        #expect(try await server.get(kept).status == 200)
        async let first = server.get("fit:10x10/\(origin.url)/held/1")
        async let second = server.get("fit:10x10/\(origin.otherURL)/held/2")
        await origin.waitForHeld(2)
        let third = try await server.get("fit:10x10/http://a.test/picture/2")
        #expect(third.status == 503 && third.headers["Retry-After"] == "1")
        #expect(try await server.get(kept).status == 200)
        origin.open()
        #expect(try await first.status == 200)
        #expect(try await second.status == 200)
        #expect(try await server.get("fit:10x10/\(origin.url)/picture/2").status == 200)
        await server.stop()
        await origin.stop()
    }

    @Test("a silent host takes a quarter of the room at most, each of its pictures once, and other hosts go on")
    func silentHost() async throws {
        let (origin, server) = (try await Origin(), try await TestServer(["--max-making", "4"]))
        for path in ["renewed", "renewed/strict"] {
            #expect(try await server.get("fit:10x10/\(origin.url)/\(path)").status == 200)
        }
        let query = try PictureQuery("fit:10x10/\(origin.url)/held", PictureQuery.Limits())
        let service = server.server.service
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<300 { group.addTask { _ = try await service.picture(KnownPaths.Path(query), as: .jpeg) } }
            await origin.waitForHeld(1)
            #expect(try await server.get("fit:10x10/\(origin.url)/picture/1").status == 503)
            #expect(try await server.get("fit:10x10/\(origin.otherURL)/picture/1").status == 200)
            // An old picture is better than none, unless its source forbids it.
            #expect(try await server.get("fit:10x10/\(origin.url)/renewed").status == 200)
            #expect(try await server.get("fit:10x10/\(origin.url)/renewed/strict").status == 503)
            #expect(origin.requests == ["/renewed", "/renewed/strict", "/held", "/picture/1"])
            origin.open()
            try await group.waitForAll()
        }
        #expect(try await server.get("fit:10x10/\(origin.url)/picture/1").status == 200)
        await server.stop()
        await origin.stop()
    }

    @Test("a stampede asks the origin once for each source, and makes each picture once")
    func stampede() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let events = server.server.service.cache.events(about: .objects, limit: 10_000)
        let answers = try await withThrowingTaskGroup(of: [TransferResponse].self) { clients in
            for _ in 0..<8 {
                clients.addTask {
                    var answers: [TransferResponse] = []
                    for number in 0..<20 {
                        answers.append(
                            try await server.get(
                                "fit:200x200/format:auto/\(origin.url)/picture/\(number)", ["Accept": "image/webp"]))
                    }
                    return answers
                }
            }
            return try await clients.reduce(into: []) { $0 += $1 }
        }
        #expect(answers.count == 160 && answers.allSatisfy { $0.status == 200 })
        #expect(Set(answers.compactMap { $0.headers["ETag"] }).count == 20)
        #expect(origin.requests.count == 20)
        await server.stop()
        var decodes = 0
        for await event in events { if case .decodeBegan = event.kind { decodes += 1 } }
        #expect(decodes == 20)
        await origin.stop()
    }

    @Test("a prefetched picture is there when it is asked for, and urgent work comes before it")
    func prefetch() async throws {
        let (origin, server) = (try await Origin(), try await TestServer())
        let paths = (0..<5).map { "fit:100x100/\(origin.url)/picture/\($0)" }
        async let urgent = server.get("fit:100x100/\(origin.url)/held")
        await origin.waitForHeld(1)
        let wrong = try await server.prefetch(paths.map { server.signed($0) } + ["/unsafe/\(paths[0])"])
        #expect(wrong.status == 403)
        let answer = try await server.prefetch(paths.map { server.signed($0) }, ["Accept": "image/webp"])
        #expect(answer.status == 202 && answer.text == "5 pictures\n")
        origin.open()
        #expect(try await urgent.status == 200)
        for prefetcher in server.server.service.prefetchers { _ = await prefetcher.value }
        #expect(Set(origin.requests).count == 6 && origin.requests.count == 6)
        let end = try #require(origin.events.firstIndex { $0.path == "/held" && $0.isEnd })
        #expect(origin.events[..<end].allSatisfy { $0.path == "/held" })
        for path in paths {
            let kept = try await server.get(path, ["Accept": "image/webp"])
            #expect(kept.status == 200 && kept.headers["Content-Type"] == "image/webp")
        }
        #expect(origin.requests.count == 6)
        for body in ["{}", "[1]", "nonsense"] {
            #expect(try await server.post("/prefetch", Data(body.utf8)).status == 400)
        }
        #expect(try await server.prefetch(Array(repeating: "/a/b", count: 1_001)).status == 413)
        await server.stop()
        let small = try await TestServer(["--max-prefetches", "4"])
        #expect(try await small.prefetch(paths.map { small.signed($0) }).status == 503)
        await small.stop()
        await origin.stop()
    }

    @Test("prefetches of one request do not wait for those of another to be forgotten, and count until they have ended")
    func prefetchRoom() async throws {
        let (origin, server) = (try await Origin(), try await TestServer(["--max-prefetches", "2"]))
        let service = server.server.service
        func prefetch(_ paths: String...) async throws -> Int {
            try await server.prefetch(paths.map { server.signed("fit:10x10/\(origin.url)/\($0)") }).status
        }
        #expect(try await prefetch("held/1") == 202)
        await origin.waitForHeld(1)
        #expect(try await prefetch("picture/1", "picture/2") == 503)
        #expect(try await prefetch("picture/1") == 202)
        while service.prefetchers.count > 1 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await prefetch("picture/2") == 202)
        #expect(try await prefetch() == 202)
        origin.open()
        while !service.prefetchers.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
        #expect(try await prefetch("picture/3", "picture/4") == 202)
        await server.stop()
        await origin.stop()
    }

    // MARK: Running

    @Test("the figures of the cache and of the server can be read, and it tells that it is well")
    func figures() async throws {
        // Also for the other tests: the process has one backend.
        Figures.install()
        let (origin, server) = (try await Origin(), try await TestServer())
        for _ in 0..<2 { _ = try await server.get("fit:10x10/\(origin.url)/picture/1") }
        #expect(try await server.get(unsigned: "/health").text == "ok\n")
        let head = try await server.send("HEAD", "/health")
        #expect(head.status == 200 && head.headers["Content-Length"] == "3" && head.body.isEmpty)
        #expect(try await server.send("DELETE", "/health").status == 404)
        let text = try await server.get(unsigned: "/metrics").text
        for line in [
            "# TYPE dipper_network_requests_total counter", "# TYPE image_server_duration_seconds histogram",
            "image_server_answers_total{status=\"200\",source=\"network\"} ",
            "dipper_answers_total{cache=\"pictures\",",
            "image_server_answers_total{status=\"200\",source=\"memory\"} ",
            "image_server_duration_seconds_bucket{source=\"network\",le=\"+Inf\"} ",
            "# TYPE image_server_disk_bytes gauge",
            "image_server_pictures_being_made 0",
        ] { #expect(text.contains("\n\(line)") || text.hasPrefix(line), "\(line)") }
        await server.stop()
        await origin.stop()
    }

    @Test("with --inspect a page shows what the cache does, at an address of its own")
    func inspector() async throws {
        let folder = Folder()
        let program = try Program(
            Program.built("ImageServer"),
            [
                "serve", "--port", "0", "--inspect", "0", "--folder", folder.path("cache"), "--key-file",
                try folder.keyFile(),
            ])
        let line = try #require(await program.line(with: "The cache can be watched at "))
        let client = CurlTransport()
        let page = try await client.answer(line.replacing("The cache can be watched at ", with: ""))
        #expect(page.status == 200 && page.headers["Content-Type"]?.hasPrefix("text/html") == true)
        await client.shutdown()
        program.send(SIGTERM)
        #expect(await program.status() == 0)
    }

    @Test("on SIGTERM the answer that is being made still comes, and what was made is kept")
    func termination() async throws {
        let (origin, folder) = (try await Origin(), Folder())
        let path = "fit:100x100/\(origin.url)/held"
        let signer = Signer(keys: [Array(TestServer.key.utf8)], allowsUnsigned: false)
        let arguments = [
            "serve", "--port", "0", "--allow-private", "--log-level", "debug", "--folder", folder.path("cache"),
            "--key-file", try folder.keyFile(),
        ]
        let client = CurlTransport()
        let program = try Program(Program.built("ImageServer"), arguments)
        let line = try #require(await program.line(with: "Listening on "))
        let url = "\(line.replacing("Listening on ", with: ""))/\(signer.signature(of: path) ?? "")/\(path)"
        async let answer = client.answer(url)
        await origin.waitForHeld(1)
        program.send(SIGTERM)
        #expect(await program.line(with: "Signal caught") != nil)
        origin.open()
        #expect(try await answer.status == 200)
        #expect(await program.status() == 0)
        await client.shutdown()
        let second = try await TestServer(in: folder)
        #expect(try await second.get(path).status == 200)
        #expect(origin.requests == ["/held"])
        await second.stop()
        await origin.stop()
    }

    @Test("on SIGTERM a slow client still gets all of its answer, and the process that decoded it has no key")
    func slowClient() async throws {
        let (origin, folder) = (try await Origin(), Folder())
        let arguments = [
            "serve", "--port", "0", "--allow-private", "--unsafe", "--log-level", "debug", "--folder",
            folder.path("cache"), "--key-file", try folder.keyFile(), "--timeout", "100", "--shutdown-timeout", "100",
        ]
        let program = try Program(Program.built("ImageServer"), arguments)
        let line = try #require(await program.line(with: "Listening on "))
        let url = "\(line.replacing("Listening on ", with: ""))/unsafe/format:png/\(origin.url)/noise"
        let client = CurlTransport()
        let size = try await client.answer(url).body.count
        #expect(size > 10_000_000)
        let helpers = try Program("/usr/bin/pgrep", ["-a", "-P", "\(program.id)"])
        let helper = try #require(await helpers.line(with: " dipper-decoder")).prefix { $0 != " " }
        let variables = try String(contentsOfFile: "/proc/\(helper)/environ", encoding: .utf8).split(separator: "\0")
        #expect(variables.allSatisfy { $0 == "DIPPER_DECODER=1" || $0.hasPrefix("LD_LIBRARY_PATH=") })
        let slow = try Program(
            "/usr/bin/curl", ["-sSv", "--limit-rate", "5M", "-o", "/dev/null", "-w", "%{size_download} bytes\n", url])
        #expect(await slow.line(with: "HTTP/1.1 200") != nil)
        program.send(SIGTERM)
        #expect(await slow.line(with: "\(size) bytes") != nil)
        #expect(await program.status() == 0)
        await client.shutdown()
        await origin.stop()
    }

    @Test("the connection of a client that takes nothing for too long ends, and no other one")
    func slowClients() throws {
        let channel = EmbeddedChannel(handler: SlowClients(patience: .seconds(30)))
        try channel.connect(to: SocketAddress(unixDomainSocketPath: "/none")).wait()
        for _ in 0..<3 {
            channel.isWritable = false
            channel.pipeline.fireChannelWritabilityChanged()
            channel.embeddedEventLoop.advanceTime(by: .seconds(29))
            channel.isWritable = true
            channel.pipeline.fireChannelWritabilityChanged()
            channel.embeddedEventLoop.advanceTime(by: .seconds(60))
        }
        #expect(channel.isActive)
        channel.isWritable = false
        channel.pipeline.fireChannelWritabilityChanged()
        channel.embeddedEventLoop.advanceTime(by: .seconds(30))
        #expect(!channel.isActive)
    }

    @Test("a server with another folder finds in Redis what the first one has made, and works without Redis")
    func shared() async throws {
        let (origin, folder) = (try await Origin(), Folder())
        let socket = folder.path("redis")
        let redis = try Program("/usr/bin/redis-server", ["--port", "0", "--unixsocket", socket, "--save", ""])
        #expect(await redis.line(with: "eady to accept connections") != nil)
        let path = "fit:100x100/\(origin.url)/picture/1"
        // A busy machine may be slower than the default.
        let options = ["--shared", "unix://\(socket)", "--shared-timeout", "5000"]
        let first = try await TestServer(options)
        let made = try await first.get(path)
        await first.server.service.cache.synchronize()
        await first.stop()
        let second = try await TestServer(options)
        let found = try await second.get(path)
        #expect(found.status == 200 && found.body == made.body)
        #expect(origin.requests.count == 1)
        redis.send(SIGKILL)
        _ = await redis.status()
        #expect(try await second.get("fit:100x100/\(origin.url)/picture/2").status == 200)
        await second.stop()
        await origin.stop()
    }

    @Test("a command line that would serve nobody, or everybody by mistake, is refused with a reason")
    func commandLine() async throws {
        for (arguments, reason) in [
            ([], "Give a key"), (["--key-file", "/nowhere"], "cannot be read"), (["--port", "70000"], "--port"),
            (["--log-level", "loud"], "--log-level"), (["--memory", "0"], "at least 1"),
        ] {
            let error = #expect(throws: (any Error).self) { _ = try Options.parse(arguments).signer() }
            #expect(error.map { Options.message(for: $0) }?.contains(reason) == true, "\(arguments)")
        }
        let folder = Folder()
        try "short".write(toFile: folder.path("key"), atomically: true, encoding: .utf8)
        #expect(throws: (any Error).self) { _ = try Options.parse(["--key-file", folder.path("key")]).signer() }
        #expect(try Options.parse(["--unsafe"]).signer().accepts("unsafe", of: "a"))
        let path = "fit:1x1/http://a.test/"
        let arguments = ["sign", "--key-file", try folder.keyFile()]
        let program = try Program(Program.built("ImageServer"), arguments + [path])
        let signature = Signer(keys: [Array(TestServer.key.utf8)], allowsUnsigned: false).signature(of: path)
        #expect(await program.line(with: path) == "/\(signature ?? "")/\(path)")
        let wrong = try Program(Program.built("ImageServer"), arguments + ["nonsense"])
        #expect(await wrong.line(with: "nonsense: no URL in the path") != nil)
    }
}
