import FaultServer
import TestSupport
import Testing

@Suite("A long body goes to its file while it arrives", .timeLimit(.minutes(2)))
struct ArrivingBodyTests {
    private static let size = 3 << 20
    private let folder = TemporaryFolder()
    private let target = url("film")
    private let fields: HTTPHeaders = ["ETag": "\"v\"", "Content-Length": "\(Self.size)"]
    private let body = FaultServer.body(of: "/film", size: Self.size)

    private func open(_ change: (inout DataCache.Configuration) -> Void = { _ in }) -> TestCache {
        TestCache.onDisk(folder) {
            $0.retryPolicy = .never
            // One that stands for a killed program holds nobody up.
            $0.leases.sharesFolder = false
            change(&$0)
        }
    }

    private func beginning(_ count: Int) -> TransferResponse {
        TransferResponse(headers: fields, body: body.prefix(count))
    }

    private func rest(from offset: Int, upTo end: Int = Self.size) -> TransferResponse {
        let headers: HTTPHeaders = ["ETag": "\"v\"", "Content-Range": "bytes \(offset)-\(Self.size - 1)/\(Self.size)"]
        return TransferResponse(status: 206, headers: headers, body: body[offset..<end])
    }

    private var blobs: [String] { folder.files.filter { $0.hasPrefix("blobs/") } }

    private func number(of file: String) -> UInt64 {
        var status = stat()
        lstat(folder.path + "/" + file, &status)
        return UInt64(status.st_ino)
    }

    /// Begins a call of which so many bytes have come and are on disk.
    private func begin(_ test: TestCache, _ counts: Int...) async throws -> (task: DataTask, transfer: ScriptedTransfer)
    {
        let (task, transfer) = try await test.begin(target)
        for count in counts {
            transfer.hold(beginning(count))
            // The cache has heard of the part.
            _ = test.cache.queueCounts
            await test.cache.synchronize()
        }
        return (task, transfer)
    }

    @Test("a program that is killed goes on there, again and again, also after a part that it asked for")
    func killed() async throws {
        // The other caches see what a program would find that starts after this one was killed.
        let first = open()
        let (one, _) = try await begin(first, 1_100_000, 2_100_000)
        let second = open()
        let (two, part) = try await second.begin(target)
        #expect(part.request.headers["Range"] == "bytes=2100000-" && part.request.headers["If-Range"] == "\"v\"")
        part.hold(rest(from: 2_100_000, upTo: 2_500_000))
        _ = second.cache.queueCounts
        await second.cache.synchronize()
        let third = open()
        let (three, last) = try await third.begin(target)
        #expect(last.request.headers["Range"] == "bytes=2500000-")
        last.finish(with: rest(from: 2_500_000).body, status: 206, headers: rest(from: 2_500_000).headers)
        #expect(try await three.value == body)
        await third.cache.synchronize()
        #expect(open().cache.readData(for: target) == body && blobs.count == 1)
        for task in [one, two] { task.cancel() }
        await first.cache.idle()
        await second.cache.idle()
        #expect(open().cache.readData(for: target) == body, "what the other programs have left changes nothing")
        let report = await third.cache.verify()
        #expect(report.isSound && report.sound == 1)
    }

    @Test("the file of the arriving body becomes that of the entry", arguments: [Durability.relaxed, .durable])
    func becomesEntry(durability: Durability) async throws {
        let test = open { $0.fileNaming = .sha256(extension: .fixed("film")) }
        let (task, transfer) = try await test.begin(DataRequest(target).with(\.durability, durability))
        transfer.hold(beginning(1_500_000))
        _ = test.cache.queueCounts
        await test.cache.synchronize()
        let arriving = try #require(blobs.first)
        let inode = number(of: arriving)
        transfer.finish(with: body, headers: fields)
        #expect(try await task.value == body)
        await test.cache.synchronize()
        #expect(blobs.map(number) == [inode] && blobs[0].hasSuffix(".film") && !arriving.hasSuffix(".film"))
        #expect(try Data(contentsOf: folder.url.appendingPathComponent(blobs[0])) == body)
        #expect(await open().cache.verify().sound == 1)
    }

    @Test("another body than the one that began is not joined to its beginning", arguments: [true, false])
    func otherBody(isAdded: Bool) async throws {
        let test = open()
        let other = Data(body.reversed())
        let (task, transfer) = try await begin(test, 1_500_000)
        if isAdded { try test.cache.addData(other, for: target) }
        transfer.finish(with: isAdded ? body : other, headers: fields)
        _ = try await task.value
        await test.cache.synchronize()
        #expect(open().cache.readData(for: target) == other && blobs.count == 1)
    }

    @Test("a damaged or shortened file is not continued", arguments: [true, false])
    func damaged(isShort: Bool) async throws {
        let test = open()
        let (task, _) = try await begin(test, 1_500_000)
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent(try #require(blobs.first)))
        if isShort {
            try file.truncate(atOffset: 1_400_000)
        } else {
            try file.seek(toOffset: 700_000)
            try file.write(contentsOf: Data([body[700_000] ^ 1]))
        }
        try file.close()
        let next = open()
        #expect(try await next.nextFields(of: target)["Range"] == nil)
        task.cancel()
        await test.cache.idle()
    }

    @Test("bytes that came after the last note of them do no harm")
    func longer() async throws {
        let test = open()
        let (task, _) = try await begin(test, 1_500_000)
        let file = try FileHandle(forUpdating: folder.url.appendingPathComponent(try #require(blobs.first)))
        try file.seekToEnd()
        try file.write(contentsOf: Data("torn".utf8))
        try file.close()
        let next = open()
        #expect(await next.cache.verify().isSound)
        #expect(try await next.nextFields(of: target)["Range"] == "bytes=1500000-")
        task.cancel()
        await test.cache.idle()
    }

    @Test("a removed entry leaves nothing behind, and nothing of the transfer is written any more")
    func removed() async throws {
        let test = open()
        let (task, transfer) = try await begin(test, 1_500_000)
        #expect(blobs.count == 1)
        test.cache.removeData(for: target)
        await test.cache.synchronize()
        transfer.hold(beginning(2_000_000))
        _ = test.cache.queueCounts
        await test.cache.synchronize()
        #expect(blobs == [])
        transfer.finish(with: body, headers: fields)
        #expect(try await task.value == body)
        await test.cache.synchronize()
        #expect(blobs == [] && test.cache.diskCount == 0)
    }

    @Test("what may not be kept does not go to a file, nor what a codec would have to encode")
    func notKept() async throws {
        for headers: HTTPHeaders in [
            fields.adding("Cache-Control", "no-store"), ["Content-Length": "\(Self.size)"],
            fields.adding("Content-Encoding", "gzip"),
        ] {
            let test = open()
            let (task, transfer) = try await test.begin(target)
            transfer.hold(TransferResponse(headers: headers, body: body.prefix(1_500_000)))
            _ = test.cache.queueCounts
            await test.cache.synchronize()
            #expect(blobs == [], "\(headers)")
            task.cancel()
            await test.cache.shutdown()
        }
        let test = open { $0.recordCodec = AESCodec(1) }
        let (task, _) = try await begin(test, 1_500_000)
        #expect(blobs == [])
        task.cancel()
        await test.cache.idle()
        #expect(blobs.count == 1, "once it is broken off")
    }

    @Test("a disk that fails meanwhile costs the beginning, not the body")
    func failingDisk() async throws {
        let disk = FailingDisk()
        let test = open { disk.attach(to: &$0) }
        let (task, transfer) = try await begin(test, 1_100_000)
        disk.fail(.full)
        for count in [1_200_000, 1_300_000] {
            transfer.hold(beginning(count))
            _ = test.cache.queueCounts
            await test.cache.synchronize()
        }
        disk.heal()
        transfer.finish(with: body, headers: fields)
        #expect(try await task.value == body)
        await test.cache.synchronize()
        #expect(open().cache.readData(for: target) == body && blobs.count == 1)
    }

    @Test("while the disk is behind, the part before stays")
    func behind() async throws {
        let disk = FailingDisk()
        let test = open {
            disk.attach(to: &$0)
            $0.stagingLimit = 100_000
        }
        let (task, transfer) = try await begin(test, 1_100_000)
        disk.hold([.write])
        for number in 0..<16 { try test.cache.addData(Data(count: 30_000), for: url("other \(number)")) }
        transfer.hold(beginning(2_100_000))
        _ = test.cache.queueCounts
        disk.release()
        await test.cache.synchronize()
        #expect(try await open().nextFields(of: target)["Range"] == "bytes=1100000-")
        task.cancel()
        await test.cache.idle()
    }

    @Test("the limit of the partial bodies holds once the transfer is broken off; zero keeps none")
    func limit() async throws {
        let test = open { $0.partialLimit = 1_200_000 }
        try await test.leave(TransferResponse(headers: fields, body: body.prefix(300_000)), of: url("small"))
        let (task, _) = try await begin(test, 1_100_000, 2_000_000)
        #expect(try await open().nextFields(of: target)["Range"] == "bytes=2000000-")
        #expect(try await open().nextFields(of: url("small"))["Range"] == "bytes=300000-", "it does not make room")
        task.cancel()
        await test.cache.idle()
        #expect(try await open().nextFields(of: target)["Range"] == nil)
        await test.cache.shutdown()
        let none = open { $0.partialLimit = 0 }
        let before = blobs
        let (other, _) = try await begin(none, 1_100_000)
        #expect(blobs == before)
        other.cancel()
        await none.cache.idle()
    }

    @Test("a body that is refused in the end leaves no beginning", arguments: [true, false])
    func refused(isTransformed: Bool) async throws {
        let test = open()
        var request = DataRequest(target)
        if isTransformed {
            request.bodyTransform = BodyTransform(identifier: "t") { _ throws in throw DipperError.undecodable }
        } else {
            request.validation = ResponseValidation { _ in DipperError.rejected }
        }
        let (task, transfer) = try await test.begin(request)
        transfer.hold(beginning(2_000_000))
        _ = test.cache.queueCounts
        await test.cache.synchronize()
        #expect(blobs.count == 1)
        transfer.finish(with: body, headers: fields)
        #expect(await task.error != nil)
        await test.cache.synchronize()
        #expect(blobs == [])
    }

    @Test("another version replaces a longer beginning of the earlier one")
    func changed() async throws {
        let test = open()
        try await test.leave(beginning(2_500_000), of: target)
        let (task, transfer) = try await test.begin(target)
        #expect(transfer.request.headers["Range"] == "bytes=2500000-")
        let other: HTTPHeaders = ["ETag": "\"w\"", "Content-Length": "\(Self.size)"]
        transfer.hold(TransferResponse(headers: other, body: body.prefix(1_100_000)))
        _ = test.cache.queueCounts
        await test.cache.synchronize()
        let next = try await open().nextFields(of: target)
        #expect(next["Range"] == "bytes=1100000-" && next["If-Range"] == "\"w\"")
        task.cancel()
        await test.cache.idle()
    }

    @Test("another program that brings the same body is not disturbed")
    func twoPrograms() async throws {
        let (first, second) = (open(), open())
        let (one, other) = try await begin(first, 1_200_000)
        let (two, transfer) = try await second.begin(DataRequest(target).with(\.cachePolicy, .ignoreCache))
        transfer.hold(beginning(1_100_000))
        _ = second.cache.queueCounts
        await second.cache.synchronize()
        let file = blobs
        other.hold(beginning(2_900_000))
        _ = first.cache.queueCounts
        await first.cache.synchronize()
        #expect(blobs == file, "the file of the second")
        transfer.hold(beginning(2_000_000))
        _ = second.cache.queueCounts
        await second.cache.synchronize()
        #expect(try await open().nextFields(of: target)["Range"] == "bytes=2000000-")
        other.finish(with: body, headers: fields)
        transfer.finish(with: body, headers: fields)
        for task in [one, two] { #expect(try await task.value == body) }
        await first.cache.synchronize()
        await second.cache.synchronize()
        #expect(open().cache.readData(for: target) == body)
    }

    @Test("the transport tells of its parts: whatever ends the program, the next run begins where they end")
    func server() async throws {
        let path = "/bytes/\(Self.size)/film"
        try await withFaultServer(folder, { $0.progressInterval = .zero }) { server, cache async throws in
            let target = server.url("\(path)?etag=v&stall=2500000&times=1")
            let task = cache.getData(target)
            await task.receives(atLeast: 2_300_000)
            await cache.synchronize()
            let next = DataCache(.init(directory: folder.url))
            #expect(try await next.getData(target).value == FaultServer.body(of: path, size: Self.size))
            let range = try #require(server.requests.last?.header("Range"))
            let offset = try #require(Int(range.dropFirst(6).dropLast()))
            #expect(offset >= 2 << 20 && offset <= 2_500_000)
            task.cancel()
            await cache.idle()
            #expect(next.readData(for: target) != nil)
            await next.shutdown()
        }
    }
}
