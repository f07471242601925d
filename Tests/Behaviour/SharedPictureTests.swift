import TestSupport
import Testing

@Suite("Processed pictures in tiers of the program's own", .timeLimit(.minutes(2)))
struct SharedPictureTests {
    private let a = url("a.png")
    private let shelf = Shelf()
    private let date = ManualDate()
    private var thumbnail: ImageRequest { ImageRequest(a).processed(by: .resize(width: 40)) }

    /// A machine of its own, beside one shelf.
    private func machine() -> TestImageCache {
        TestImageCache(folder: TemporaryFolder(), date: date) { $0.data.tiers = [shelf] }
    }

    private func answer(_ width: Int = 400, _ more: HTTPHeaders = [:]) throws -> ScriptedTransport.Step {
        let headers = HTTPHeaders([.init("Cache-Control", "max-age=500")] + more.fields)
        return .response(TransferResponse(headers: headers, body: try Image.sample(width, width / 2).png))
    }

    /// Makes a picture on a machine, and returns when it and what it needs are written.
    private func make(
        _ request: ImageRequest, _ test: TestImageCache, _ step: ScriptedTransport.Step? = nil
    ) async throws -> ImageResponse {
        if let step { test.transport.script(a, [step]) }
        let response = try await test.cache.getImage(request).response
        await test.cache.synchronize()
        return response
    }

    @Test("one machine makes a picture; another fetches and decodes no original, and has the picture on disk then")
    func shared() async throws {
        let (first, second) = (machine(), machine())
        #expect(try await make(thumbnail, first, answer()).source == .network)
        #expect(shelf.records.value.count == 2, "the original and the picture")
        let response = try await make(thumbnail, second)
        #expect(response.source == .shared && response.image.size == PixelSize(width: 40, height: 20))
        #expect(second.transport.transfers.isEmpty)
        #expect(second.cache.data.statistics.sharedHits == 1)
        second.cache.clearMemory()
        #expect(try await make(thumbnail, second).source == .disk)
        #expect(shelf.lookUps.value == 3, "twice by the first machine, for the picture and the original")
    }

    @Test("a picture made later of an original on disk is shared as well")
    func laterSize() async throws {
        let (first, second) = (machine(), machine())
        _ = try await make(ImageRequest(a), first, answer())
        first.cache.clearMemory()
        _ = try await make(thumbnail, first)
        #expect(shelf.records.value.count == 2)
        #expect(try await make(thumbnail, second).source == .shared)
        #expect(second.transport.transfers.isEmpty)
    }

    @Test(
        "what nobody else may see is not shared, neither at once nor in another size later",
        arguments: ["Set-Cookie", "Cache-Control", "Authorization", "modifier", "memory only"])
    func personal(kind: String) async throws {
        let test = machine()
        var request = thumbnail
        var more: HTTPHeaders = [:]
        switch kind {
        case "Set-Cookie": more = ["Set-Cookie": "a=b"]
        case "Cache-Control": more = ["Cache-Control": "private"]
        case "Authorization": request = request.with(\.headers, ["Authorization": "Basic eA=="])
        case "modifier": request = request.with(\.modifier, RequestModifier(identity: "x") { $0 })
        default: request = request.with(\.cachePolicy, .memoryOnly)
        }
        _ = try await make(request, test, answer(400, more))
        if !more.fields.isEmpty {
            test.cache.clearMemory()
            #expect(try await make(request.processed(by: .circle), test).source == .disk)
        }
        #expect(shelf.records.value.isEmpty && shelf.lookUps.value == (more.fields.isEmpty ? 0 : 3))
    }

    @Test("a picture that another machine has made and this one cannot decode is made again, and kept")
    func unreadable() async throws {
        let (first, second) = (machine(), machine())
        _ = try await make(thumbnail, first, answer())
        second.decoder.failNext(with: .imageTooLarge)
        #expect(try await make(thumbnail, second).image.size == PixelSize(width: 40, height: 20))
        second.cache.clearMemory()
        second.cache.data.clearMemory()
        #expect(try await make(thumbnail, second).source == .disk)
    }

    @Test("a picture made of older bytes than this machine has is made again")
    func older() async throws {
        let (first, second) = (machine(), machine())
        _ = try await make(thumbnail, first, answer(400))
        date.advance(by: 10)
        _ = try await make(ImageRequest(a).with(\.cachePolicy, .ignoreCache), second, answer(600))
        #expect(try await make(thumbnail, second).source != .shared)
        #expect(second.transport.transfers.count == 1)
    }

    @Test("a removed picture comes from no tier any more, also one that another machine has made")
    func removed() async throws {
        let (first, second) = (machine(), machine())
        _ = try await make(thumbnail, first, answer())
        let circle = thumbnail.processed(by: .circle)
        #expect(try await make(circle, second).source == .shared)
        #expect(shelf.records.value.count == 3, "the circle is made of the shared picture")
        first.cache.removeImage(for: a)
        await first.cache.synchronize()
        #expect(shelf.records.value.count == 1, "the one that the first machine has not made")
        date.advance(by: 1)
        #expect(try await make(circle, first, answer(800)).source == .network)
    }

    @Test("a damaged picture is fetched and made again")
    func damaged() async throws {
        let (first, second) = (machine(), machine())
        _ = try await make(thumbnail, first, answer())
        for (name, record) in shelf.records.value {
            var damaged = record
            damaged[record.count / 2] ^= 1
            shelf.records.update { $0[name] = damaged }
        }
        #expect(try await make(thumbnail, second, answer()).source == .network)
    }
}
