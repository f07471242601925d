import CPixels
import HostileCalls
import HostileDecoding
import Synchronization
import TestSupport
import Testing

@testable import Dipper

/// Helpers that no other test uses: those of a name of its own for the program.
struct Helpers {
    private static let last = Atomic(0)
    private let folder = TemporaryFolder()
    /// At most fifteen letters, which the kernel shows.
    let name = "hostile\(Self.last.add(1, ordering: .relaxed).newValue)"
    var program: URL { folder.url.appendingPathComponent(name) }
    var options = DecodeOptions()

    init(_ program: String = "HostileDecoder", _ change: (inout DecodeOptions) -> Void = { _ in }) throws {
        let built = URL(fileURLWithPath: Built.executable(program))
        try FileManager.default.createSymbolicLink(at: self.program, withDestinationURL: built)
        options.isolation = .preferred
        options.decoderProgram = self.program
        change(&options)
    }

    static let codecs: CodecRegistry = {
        var codecs = CodecRegistry.standard
        codecs.register(HostileDecoder())
        return codecs
    }()

    func decode(_ data: Data) throws(DipperError) -> Image { try Self.codecs.decode(data, options) }

    /// Decodes a file that makes the helper carry out an attack. Returns the error, or `nil` if there is a picture.
    func attack(_ attack: String) -> DipperError? {
        do throws(DipperError) {
            _ = try decode(Data("HOSTILE \(attack)".utf8))
            return nil
        } catch {
            return error
        }
    }

    /// The helpers, with those that have ended and were not waited for.
    var processes: [pid_t] { children(areCopies: true) }
    /// The processes that were started with the program, and not as copies of such.
    var servers: [pid_t] { children(areCopies: false) }

    private func children(areCopies: Bool) -> [pid_t] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.compactMap { pid_t($0) }.filter { id in
            let stat = (try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8)) ?? ""
            // The name, the parent and the flags, of which one (PF_FORKNOEXEC) is that of copies: other tests may run at
            // the same time.
            let parts = stat.split(separator: " ", maxSplits: 9)
            guard parts.count == 10, parts[1] == "(\(name))", parts[3] == "\(getpid())" else { return false }
            return ((UInt(parts[8]) ?? 0) & 0x40 != 0) == areCopies
        }
    }
}

@Suite("Helpers that decode pictures apart", .serialized, .timeLimit(.minutes(3))) struct HelperTests {
    // MARK: Answers

    @Test("may answer with no more than the size that is asked for")
    func bound() throws {
        // A decoder that ignores the target, and one that fills the file itself, which is there for large pictures.
        #expect(try Helpers { $0.target = TargetSize(width: 10, height: 10) }.attack("large") == .undecodable)
        let helpers = try Helpers { $0.target = TargetSize(width: 600, height: 600) }
        #expect(helpers.attack("large") == .undecodable)
        let error = helpers.attack("fill")
        #expect(error == .decoderFailed && error?.detail == "the helper was ended by signal \(SIGXFSZ)")
        #expect(helpers.attack("none") == nil)
    }

    @Test("may answer with the size that a header states, of all pictures, with one more row and column for rounding")
    func headers() throws {
        for path in PictureTests.stills.map(\.path) {
            let data = try Pictures.data(path)
            let stored = try #require(try ImageInfo(data).size)
            for target in [
                nil, TargetSize(width: 7, height: 5), TargetSize(width: 9, height: 5, .fill, allowsUpscaling: true),
                TargetSize(width: 3, height: 500, .stretch),
            ] {
                let options = DecodeOptions(target: target)
                let image = try Image(data: data, options)
                let (least, most) = (image.width * image.height * 4, options.mostBytes(ofStored: stored))
                #expect(least <= most && most == (image.width + 1) * (image.height + 1) * 4, "\(path) \(image.size)")
            }
        }
        var options = DecodeOptions(target: TargetSize(width: 3, height: 4, .fill))
        #expect(options.mostBytes(ofStored: nil) == options.limits.bytes)
        options.limits.bytes = 7
        #expect(options.mostBytes(ofStored: PixelSize(width: 3, height: 4)) == 7)
    }

    @Test("use the decoder that the program has chosen, also one whose type is private")
    func named() throws {
        let helpers = try Helpers()
        var codecs = CodecRegistry()
        codecs.register(plainDecoder)
        #expect(try codecs.decode(Data("HOSTILE crash named".utf8), helpers.options).pixels == [9, 9, 9, 255])
    }

    // MARK: Failures

    /// Options whose closure signals the helper that decodes, a number of times, and then cancels the decode, unless the
    /// helper is stopped.
    private func harmed(_ helpers: Helpers, times: Int, by signal: Int32) -> DecodeOptions {
        let calls = Atomic(0)
        // One that was killed may live for a while, but is no longer the one that decodes.
        let harmed = Box<Set<pid_t>>([])
        var options = helpers.options
        options.isCancelled = {
            // First the program itself asks.
            guard calls.add(1, ordering: .relaxed).newValue > 1 else { return false }
            guard harmed.value.count < times else { return times == 0 || signal == SIGKILL }
            guard let helper = helpers.processes.first(where: { !harmed.value.contains($0) }) else { return false }
            harmed.update { $0.insert(helper) }
            kill(helper, signal)
            return false
        }
        return options
    }

    private func error(_ file: String, _ options: DecodeOptions) -> DipperError? {
        #expect(throws: DipperError.self) { try Helpers.codecs.decode(Data("HOSTILE \(file)".utf8), options) }
    }

    @Test("that are killed from outside are replaced, and the file is decoded again; a second time it is to blame")
    func killed() throws {
        let helpers = try Helpers()
        #expect(error("wait a", harmed(helpers, times: 1, by: SIGKILL)) == .cancelled)
        #expect(error("wait a", harmed(helpers, times: 0, by: SIGKILL)) == .cancelled)
        let twice = error("wait b", harmed(helpers, times: 2, by: SIGKILL))
        #expect(twice == .decoderFailed && twice?.detail == "the helper was ended by signal \(SIGKILL)")
        #expect(error("wait b", harmed(helpers, times: 0, by: SIGKILL)) == .decoderFailed)
    }

    @Test("that are killed and cannot be replaced leave the file to nobody, not to this program either")
    func unreplaced() throws {
        var helpers = try Helpers()
        func options(killing times: Int) -> DecodeOptions {
            var options = harmed(helpers, times: times, by: SIGKILL)
            options.isCancelled = { [helpers, isCancelled = options.isCancelled] in
                try? FileManager.default.removeItem(at: helpers.program)
                for server in helpers.servers { kill(server, SIGKILL) }
                return isCancelled()
            }
            return options
        }
        #expect(error("wait", options(killing: 1)) == .decoderFailed)
        helpers.options.target = TargetSize(width: 1, height: 1)
        #expect(error("wait", options(killing: 0)) == .decoderFailed)
    }

    @Test("that get no processor do not fail a file for good, until that happens again")
    func stopped() throws {
        var helpers = try Helpers()
        let patient = helpers
        helpers.options.limits.time = .seconds(2)
        let stopped = harmed(helpers, times: 1, by: SIGSTOP)
        #expect(error("wait a", stopped)?.detail == "the helper took longer than \(helpers.options.limits.time)")
        #expect(error("wait a", harmed(helpers, times: 0, by: SIGSTOP)) == .cancelled)
        for _ in 0..<2 { #expect(error("wait b", harmed(helpers, times: 1, by: SIGSTOP)) == .decoderFailed) }
        #expect(error("wait b", harmed(helpers, times: 0, by: SIGSTOP)) == .decoderFailed)
        // With another time, the file may do.
        #expect(error("wait b", harmed(patient, times: 0, by: SIGSTOP)) == .cancelled)
    }

    @Test("that crash fail a file for the options with which it was decoded")
    func options() throws {
        var helpers = try Helpers()
        let reason = "the helper was ended by signal \(SIGSEGV)"
        #expect(helpers.attack("crash")?.detail == reason)
        #expect(helpers.attack("crash")?.detail != reason)
        helpers.options.target = TargetSize(width: 1, height: 1)
        #expect(helpers.attack("crash")?.detail == reason)
    }

    // MARK: Processes

    @Test("are never signalled by a number that another process has got", .enabled(if: geteuid() == 0))
    func recycled() throws {
        let helpers = try Helpers()
        #expect(helpers.attack("none") == nil)
        let helper = try #require(helpers.processes.first)
        // Other code of the program waits for all children.
        kill(helper, SIGKILL)
        #expect(waitpid(helper, nil, 0) == helper)
        let other = hostile_process(helper)
        try #require(other == helper, "another process has taken the number")
        defer {
            kill(other, SIGKILL)
            waitpid(other, nil, 0)
        }
        #expect(helpers.attack("none again") == nil)
        #expect(!hostile_ends(other, 0))
    }

    @Test("end when no picture has come for a while, and others are started for the next ones")
    func rest() throws {
        let helpers = try Helpers()
        let pool = try DecoderPool.of(helpers.program)
        pool.rest = .milliseconds(1)
        for _ in 0..<2 {
            #expect(helpers.attack("none") == nil)
            for process in helpers.processes + helpers.servers { #expect(hostile_ends(process, 20_000)) }
        }
        pool.rest = .seconds(600)
        #expect(helpers.attack("none") == nil)
        // Those before have been waited for.
        #expect(helpers.processes.count == 1 && helpers.servers.count == 1)
        #expect((helpers.processes + helpers.servers).allSatisfy { !hostile_ends($0, 0) })
    }

    @Test("are copies of one process of their program, which is replaced when somebody has ended it")
    func copies() throws {
        let helpers = try Helpers { $0.threads = 2 }
        var servers: [pid_t] = []
        for round in 0..<2 {
            for index in 0..<3 {
                let error = helpers.attack("crash \(round) \(index)")
                #expect(error?.detail == "the helper was ended by signal \(SIGSEGV)")
                #expect(helpers.attack("none \(round) \(index)") == nil)
                if index == 0 { servers += helpers.servers }
                #expect(helpers.servers == [servers.last])
            }
            kill(try #require(servers.last), SIGKILL)
        }
        #expect(Set(servers).count == 2)
    }

    @Test("that crash again and again become copies of a new process, whose layout nobody has learnt")
    func manyCrashes() throws {
        let helpers = try Helpers { $0.threads = 1 }
        #expect(helpers.attack("none") == nil)
        let first = helpers.servers
        for index in 0..<20 { #expect(helpers.attack("crash \(index)") == .decoderFailed) }
        #expect(helpers.attack("none again") == nil)
        #expect(helpers.servers.count == 1 && helpers.servers != first)
    }

    @Test("have no descriptor of another helper, nor has the process whose copies they are")
    func inherited() throws {
        let helpers = try Helpers { $0.threads = 2 }
        let all = try (0..<2).map { try frames(helpers, "0 \($0)") }
        for frames in all { _ = try next(frames) }
        #expect(helpers.processes.count == 2)
        // Another one takes its place.
        #expect(helpers.attack("crash") == .decoderFailed)
        #expect(helpers.attack("descriptors")?.detail == "refused")
        let files = "/proc/\(try #require(helpers.servers.first))/fd"
        #expect(try FileManager.default.contentsOfDirectory(atPath: files).sorted() == ["0", "1", "2", "3"])
    }

    @Test("have a limit of processor time, and are the first to go when memory is short")
    func limits() throws {
        let helpers = try Helpers { $0.limits.time = .seconds(40) }
        #expect(helpers.attack("none") == nil)
        let folder = "/proc/\(try #require(helpers.processes.first))/"
        let lines = try String(contentsOfFile: folder + "limits", encoding: .utf8).split(separator: "\n")
        let time = lines.first { $0.hasPrefix("Max cpu time") }?.split(separator: " ").dropFirst(3).first
        #expect(time.flatMap { Int($0) }.map((41...60).contains) == true, "\(time ?? "none")")
        #expect(try String(contentsOfFile: folder + "oom_score_adj", encoding: .utf8) == "1000\n")
    }

    // MARK: Animations

    private func frames(_ helpers: Helpers, _ name: String) throws -> any FrameDecoder {
        try #require(try helpers.decode(Data("HOSTILE frames \(name)".utf8)).animation).makeFrameDecoder()
    }

    /// The colour of the next frame: the helper's number, and how often it has begun with the animation.
    private func next(_ frames: any FrameDecoder) throws -> (helper: Int, begun: Int) {
        let pixels = try #require(try frames.next()).image.pixels.map(Int.init)
        return (pixels[0] | pixels[1] << 8, pixels[2])
    }

    @Test("share the animations among them")
    func spread() throws {
        let helpers = try Helpers { $0.threads = 2 }
        let all = try (0..<4).map { try frames(helpers, "0 \($0)") }
        let used = try all.map { try next($0).helper }
        for (frames, helper) in zip(all, used) { #expect(try next(frames) == (helper, 1)) }
        #expect(Set(used).count == 2 && Set(used).allSatisfy { helper in used.count { $0 == helper } == 2 })
    }

    @Test("decode other files between the frames of an animation")
    func between() throws {
        let data = try Pictures.data("apng/keep-over.png")
        let other = try Pictures.data("png/rgb8.png")
        let expected = try #require(try Image(data: data).animation).makeFrameDecoder().rest()
        let helpers = try Helpers { $0.threads = 1 }
        let frames = try #require(try helpers.decode(data).animation).makeFrameDecoder()
        for frame in expected {
            _ = try helpers.decode(other)
            #expect(try frames.next()?.image.pixels == frame.image.pixels)
        }
    }

    @Test("forget first the animations that were not used for longest")
    func evicted() throws {
        let helpers = try Helpers { $0.threads = 1 }
        let used = try frames(helpers, "0 used")
        let others = try (0..<70).map { try frames(helpers, "0 \($0)") }
        for other in others {
            #expect(try next(other).begun == 1)
            #expect(try next(used).begun == 1)
        }
        #expect(try next(others[0]).begun == 2)
    }

    @Test("keep no more animations than the limit of memory allows beside the next picture")
    func shared() throws {
        let helpers = try Helpers { options in
            options.threads = 1
            options.limits.bytes = 512 << 20
        }
        let all = try (0..<6).map { try frames(helpers, "300 \($0)") }
        for _ in 0..<2 { for frames in all { _ = try next(frames) } }
    }
}
