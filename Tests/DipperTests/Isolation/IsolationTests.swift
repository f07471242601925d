import CPixels
import HostileCalls
import Logging
import TestSupport
import Testing

@testable import Dipper

@Suite("Pictures decoded apart", .serialized, .timeLimit(.minutes(3))) struct IsolationTests {
    private static let sanitized: Comment =
        "Address Sanitizer takes more addresses than a helper may, and ends it by itself"
    private static let shipped = Result { try Helpers("dipper-decoder") }

    private func apart(_ data: Data, _ change: (inout DecodeOptions) -> Void = { _ in }) throws -> Image {
        var options = try Self.shipped.get().options
        change(&options)
        return try CodecRegistry.standard.decode(data, options)
    }

    @Test("have the pixels that this program decodes", arguments: PictureTests.stills)
    func stills(_ test: PictureCase) throws {
        let data = try Pictures.data(test.path)
        for target in [nil, TargetSize(width: 20, height: 20)] {
            let (image, here) = (try apart(data) { $0.target = target }, try Image(data: data, .init(target: target)))
            #expect(image.size == here.size && image.isOpaque == here.isOpaque && image.pixels == here.pixels)
        }
    }

    private static let moving = [
        "gif/keep.gif", "gif/mixed.gif", "webp/moving.webp", "avif/moving.avif", "jxl/moving.jxl", "apng/keep-over.png",
        "apng/restore-source.png",
    ].filter(Pictures.isReadable)

    @Test("have the frames that this program decodes, on demand and ahead, again and again", arguments: moving)
    func frames(_ path: String) throws {
        let data = try Pictures.data(path)
        let here = try #require(try Image(data: data).animation)
        let expected = try here.makeFrameDecoder().rest()
        let animation = try #require(try apart(data).animation)
        #expect(animation.frameCount == here.frameCount && animation.loopCount == here.loopCount)
        #expect(animation.loopDuration == here.loopDuration)
        let frames = try animation.makeFrameDecoder()
        for _ in 0..<2 {
            let all = try frames.rest()
            #expect(all.map(\.duration) == expected.map(\.duration))
            #expect(all.map(\.image.pixels) == expected.map(\.image.pixels))
            try frames.rewind()
        }
        let ahead = try apart(data) { $0.preloadsFrames = true }
        #expect(ahead.animation?.preloaded?.map(\.image.pixels) == expected.map(\.image.pixels))
        #expect(try apart(data) { $0.firstFrameOnly = true }.animation == nil)
    }

    @Test("of animations go on when their helper has ended, from the frame at which they were")
    func framesGoOn() throws {
        let helpers = try Helpers()
        let data = try Pictures.data("apng/keep-over.png")
        let expected = try #require(try Image(data: data).animation).makeFrameDecoder().rest()
        let frames = try #require(try helpers.decode(data).animation).makeFrameDecoder()
        for (index, frame) in expected.enumerated() {
            #expect(try frames.next()?.image.pixels == frame.image.pixels)
            #expect(helpers.attack("crash \(index)") == .decoderFailed)
        }
        #expect(try frames.next() == nil)
    }

    @Test(
        "that are broken, or too large, fail as in this program",
        .disabled(if: pixels_are_sanitized(), Self.sanitized))
    func errors() throws {
        let file = try Pictures.data("png/rgb8.png")
        for (data, change) in [
            (file.prefix(60), { _ in }), (file, { $0.limits.pixels = 10 }), (file, { $0.limits.bytes = 10 }),
        ] as [(Data, (inout DecodeOptions) -> Void)] {
            let here = #expect(throws: DipperError.self) { try Image(data: data, .with(change)) }
            let there = #expect(throws: DipperError.self) { try apart(data, change) }
            #expect(there == here && there?.detail == here?.detail)
        }
    }

    @Test(
        "are decoded where nothing else is possible",
        arguments: [
            "read", "write", "socket", "fork", "exec", "signal \(getpid())", "map", "peek \(getpid())",
            "escape \(getpid())", "descriptors",
        ])
    func wall(_ attack: String) throws {
        let error = try Helpers().attack(attack)
        #expect(error == .undecodable && error?.detail == "refused", "\(String(describing: error))")
    }

    @Test("take no more memory than their limits")
    func memory() throws {
        let helpers = try Helpers { $0.limits.bytes = 2 << 20 }
        #expect(hostile_is_sanitized() || helpers.attack("memory")?.detail == "refused")
        let error = helpers.attack("fill")
        #expect(error == .decoderFailed && error?.detail == "the helper was ended by signal \(SIGXFSZ)")
        #expect(helpers.attack("none") == nil)
    }

    @Test("are out of reach for the helper when they are handed over, whether they are copied or not")
    func handedOver() throws {
        let helpers = try Helpers()
        let large = try helpers.decode(Data("HOSTILE large".utf8))
        #expect(large.byteCount > SharedMemory.part && large.pixels.allSatisfy { $0 == 0 })
        let kept = helpers.attack("keepLarge")
        #expect(kept == .decoderFailed && kept?.detail == "the helper keeps access to the pixels")
        // The helper has the file, and not what is copied from it.
        let small = try helpers.decode(Data("HOSTILE keep".utf8))
        #expect(small.pixels == [1, 2, 3, 255])
    }

    @Test("come in files of just their length, which nobody fills afterwards")
    func lengths() throws {
        let bytes = [UInt8](repeating: 7, count: 2 * SharedMemory.part)
        func file() throws -> SharedFile {
            let file = try SharedFile()
            try #require(bytes.withUnsafeBytes { SharedFile.write($0, at: 0, to: file.file.number) })
            return file
        }
        #expect(try file().pixels(bytes.count) != nil)
        // A mapped part would keep the whole file in memory.
        #expect(try file().pixels(bytes.count - 4) == nil)
        #expect(try file().pixels(bytes.count + 4) == nil)
        let shared = try file()
        let kept = dup(shared.file.number)
        defer { close(kept) }
        _ = consume shared
        var status = stat()
        #expect(fstat(kept, &status) == 0 && status.st_size == 0)
        #expect(!bytes.withUnsafeBytes { SharedFile.write($0, at: 0, to: kept) })
    }

    @Test(
        "fail alone if they crash, end or stop their helper, and are not tried again",
        .disabled(if: pixels_are_sanitized(), Self.sanitized))
    func failures() throws {
        let time = Duration.seconds(1)
        var helpers = try Helpers { $0.limits.time = time }
        for (attack, reason) in [
            ("crash", "the helper was ended by signal 11"), ("exit", "the helper ended with status 0"),
            ("spin", "the helper took longer than \(time)"),
        ] {
            let first = helpers.attack(attack)
            #expect(first == .decoderFailed && first?.detail == reason)
            #expect(helpers.attack("none \(attack)") == nil)
            // Beside busy processes a file that takes too long is tried twice: the helper, or this program, may have had too
            // little of the processor.
            let refusal = "a helper has failed with these bytes before"
            var (before, next) = (helpers.processes, helpers.attack(attack))
            if attack == "spin", next?.detail != refusal {
                (before, next) = (helpers.processes, helpers.attack(attack))
            }
            #expect(next == .decoderFailed && next?.detail == refusal)
            #expect(helpers.processes == before, "\(next?.detail ?? "")")
        }
        // The C library aborts by another signal where it may send none.
        let aborted = helpers.attack("abort")
        #expect(aborted == .decoderFailed && aborted?.detail?.hasPrefix("the helper was ended by signal") == true)
        // The time is only for the work.
        helpers.options.limits.time = .seconds(60)
        #expect(helpers.attack("none") == nil)
    }

    @Test("are given up when their call is cancelled; the helper is used again if it stops by itself")
    func cancelled() throws {
        let calls = Box(0)
        let helpers = try Helpers { options in
            options.isCancelled = {
                calls.update { calls in
                    calls += 1
                    return calls % 4 == 0
                }
            }
        }
        #expect(helpers.attack("wait") == .cancelled)
        let before = helpers.processes
        #expect(helpers.attack("wait") == .cancelled)
        #expect(helpers.processes == before && before.count == 1)
        #expect(helpers.attack("spin") == .cancelled)
        #expect(helpers.processes != before)
    }

    @Test("leave no process and no descriptor, also when every tenth kills its helper")
    func many() throws {
        let count = ProcessInfo.processInfo.environment["DIPPER_DECODES"].flatMap { Int($0) } ?? 300
        let output = try runProgram(Built.executable("HostileDecoder"), ["many", "\(count)"])
        let lines = String(decoding: output, as: UTF8.self).split(separator: "\n").map(String.init)
        let failed = count / 10
        let results = ["SIMD4<UInt8>(1, 2, 3, 255) \(count - failed)", "decoder failed \(failed)"]
        #expect(lines.dropLast() == results + ["descriptors 0 children 0"])
        // The marks of the files that failed, and what malloc keeps.
        let grown = try #require(lines.last?.split(separator: " ").last.flatMap { Int($0) })
        #expect(grown < 16, "\(grown) MB")
    }

    @Test("end with the program, which may be killed")
    func ends() async throws {
        let tool = try LineTool(Built.executable("HostileDecoder"), ["spin"])
        let processes = (await tool.nextLine() ?? "").split(separator: " ").compactMap { pid_t($0) }
        #expect(processes.count == 2 && processes.allSatisfy { !hostile_ends($0, 0) })
        tool.process.send(SIGKILL)
        for process in processes { #expect(hostile_ends(process, 20_000)) }
    }

    @Test("are decoded in this program, or not at all, if there is no helper for them")
    func missing() async throws {
        let data = try Pictures.data("png/rgb8.png")
        var options = DecodeOptions()
        options.decoderProgram = URL(fileURLWithPath: "/nowhere/dipper-decoder")
        options.isolation = .preferred
        #expect(try Image(data: data, options).pixels == Image(data: data).pixels)
        options.isolation = .required
        #expect(throws: DipperError.notIsolated) { try Image(data: data, options) }
        // A program that does not decode.
        options.decoderProgram = URL(fileURLWithPath: "/bin/true")
        let error = #expect(throws: DipperError.notIsolated) { try Image(data: data, options) }
        #expect(error?.detail == "'/bin/true' is no decoder: the process ended with status 0")
        // A decoder that only this program has.
        let counting = CountingDecoder()
        var codecs = CodecRegistry.standard
        codecs.register(counting)
        options.decoderProgram = try Self.shipped.get().program
        #expect(throws: DipperError.notIsolated) { try codecs.decode(data, options) }
        #expect(counting.decodes == 0)
        options.isolation = .preferred
        _ = try codecs.decode(data, options)
        #expect(counting.decodes == 1)
    }

    @Test("are required to have a complete wall, and a cache says what is missing")
    func posture() async throws {
        let data = try Pictures.data("png/rgb8.png")
        var configuration = ImageCache.Configuration()
        configuration.isolation = .required
        configuration.decoderProgram = try Self.shipped.get().program
        let posture = await ImageCache(configuration).isolationPosture
        #expect(posture.program == configuration.decoderProgram?.path)
        // Nothing is missing where the tests run, unless the kernel has no Landlock.
        #expect(posture.missing.allSatisfy { $0.hasPrefix("no files (Landlock)") }, "\(posture)")
        let isDecoded = (try? apart(data) { $0.isolation = .required }) != nil
        #expect(isDecoded == posture.isComplete)

        configuration.decoderProgram = URL(fileURLWithPath: "/nowhere/dipper-decoder")
        let lines = Box<[String]>([])
        configuration.data.logger = .recording(lines: { line in lines.update { $0.append(line) } })
        let cache = ImageCache(configuration)
        try await lines.wait { $0.contains { $0.contains("/nowhere/dipper-decoder") } }
        let none = await cache.isolationPosture
        #expect(none.program == nil && !none.isComplete && none.description.contains("/nowhere/dipper-decoder"))
    }

    @Test("are decoded for others, such as the inspector, as the strictest of the image caches on the same bytes says")
    func strictest() {
        let data = DataCache()
        #expect(data.decodeOptions.isolation == .automatic)
        var found: [Isolation] = []
        for isolation in [Isolation.off, .automatic, .off, .preferred, .automatic, .required, .preferred, .off] {
            data.isolateOthers(.with { $0.isolation = isolation })
            found.append(data.decodeOptions.isolation)
        }
        #expect(found == [.off, .automatic, .automatic, .preferred, .preferred, .required, .required, .required])
    }

    @Test("are loaded by a cache; alternatives take the place of one that crashes")
    func cache() async throws {
        let helpers = try Helpers()
        let test = TestImageCache { configuration in
            configuration.codecs = Helpers.codecs
            configuration.isolation = .preferred
            configuration.decoderProgram = helpers.program
        }
        let picture = try Pictures.data("png/rgb8.png")
        test.transport.script(url("bad"), [.body(Data("HOSTILE crash".utf8))])
        test.transport.script(url("good"), [.body(picture)])
        let image = try await test.cache.getImage(url("good")).value
        #expect(try image.pixels == Image(data: picture).pixels)
        #expect(await test.cache.getImage(url("bad")).error == .decoderFailed)
        let request = ImageRequest(url("bad")).with(\.alternatives, [.url(url("good"))])
        #expect(try await test.cache.getImage(request).value.pixels == image.pixels)
        #expect(!helpers.processes.isEmpty)
    }

    @Test("are described by answers of which none is believed that cannot be true")
    func replies() throws {
        var generator = SystemRandomNumberGenerator()
        let limits = DecodeOptions.with { $0.limits.bytes = 1 << 20 }.limits
        for _ in 0..<5_000 {
            let length = Int.random(in: 100...150, using: &generator)
            var bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
            // Many numbers are small, and so some answers are believed.
            for index in bytes.indices where index % 8 > 1 || Bool.random(using: &generator) { bytes[index] = 0 }
            guard let packet = DecoderPacket(bytes),
                case .picture(let picture)? = DecoderReply(packet, limits)
            else { continue }
            let (area, overflows) = picture.size.width.multipliedReportingOverflow(by: picture.size.height)
            #expect(!picture.size.isEmpty && !overflows && area * 4 <= 1 << 20)
            #expect(picture.frameCount >= 1 && picture.loopCount >= 0 && picture.duration >= .zero)
        }
        let picture = DecoderReply.Picture(
            size: PixelSize(width: 3, height: 2), isOpaque: true, frameCount: 4, loopCount: 5,
            duration: .milliseconds(70))
        let packet = try #require(
            DecoderPacket(DecoderReply.picture(picture).packet.bytes))
        guard case .picture(picture)? = DecoderReply(packet, limits) else {
            Issue.record("The answer is another one.")
            return
        }
        // Of a frame that is shown for ever, and an animation that is repeated more often than a file can say.
        var endless = picture
        (endless.duration, endless.loopCount) = (.seconds(1_000_000) + .milliseconds(999), .max)
        guard let packet = DecoderPacket(DecoderReply.picture(endless).packet.bytes),
            case .picture(let believed)? = DecoderReply(packet, limits)
        else {
            Issue.record("A true answer is not believed.")
            return
        }
        #expect(believed.duration == .seconds(1_000_000) && believed.loopCount == Int(Int32.max))
    }
}
