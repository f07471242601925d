import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A task for a picture", .timeLimit(.minutes(2)))
struct ImageTaskTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()
    private let test = TestImageCache()

    private func load<Handle: FetchTask>(_ task: Handle) async throws -> (value: Handle.Value, status: Int) {
        let hooked = Box(false)
        task.onProgress { _ in }.onRetry {}.onFail { _, _ in }.then { _ in hooked.update { $0 = true } }
        let response = try await task.response
        try await hooked.wait { $0 }
        return (response.value, response.status)
    }

    @Test("code for both kinds of tasks gets a picture from one and bytes from the other")
    func bothKinds() async throws {
        for address in [a, b] { try test.script(address, picture) }
        let loaded = try await load(test.cache.getImage(a))
        #expect(loaded.value.pixels == picture.pixels && loaded.status == 200)
        let bytes = try await load(test.cache.data.getData(b))
        #expect(try bytes.value == picture.png && bytes.status == 200)
    }

    @Test("failures that may pass are told and retried, fatal ones end the task; hooks set late hear all")
    func hooks() async throws {
        test.transport.script(a, [.status(503), try .image(picture)])
        test.transport.script(b, [.status(404)])
        let told = Box<[String]>([])
        let task = test.cache.getImage(a), failing = test.cache.getImage(b)
        try await test.clock.waitForSleepers(1)
        #expect(task.state == .parked)
        while test.clock.advanceToNextSleeper() {}
        #expect(try await task.result.get().pixels == picture.pixels)
        #expect(await failing.error == .status(404))
        for task in [task, failing] {
            task.onFail { error, isFatal in told.update { $0.append("fail \(error) \(isFatal)") } }
                .onRetry { told.update { $0.append("retry") } }
                .then { _ in told.update { $0.append("then") } }
            await test.cache.idle()
        }
        #expect(told.value == ["fail status 503 false", "retry", "then", "fail status 404 true"])
        #expect(task.attempts == 2 && failing.attempts == 1)
    }

    // MARK: Requests of the program's own types

    private struct Avatar: ImageRequestConvertible, DataRequestConvertible {
        let name: String
        var dataRequest: DataRequest { DataRequest(url(name)).with(\.key, CacheKey("avatar of \(name)")) }
        var imageRequest: ImageRequest { ImageRequest(dataRequest) }
    }

    @Test("a type of the program's own is loaded, moved and cancelled by the request that it builds")
    func ownRequests() async throws {
        for name in ["ada", "grace"] { try test.script(url(name), picture) }
        let image = test.cache.getImage(Avatar(name: "ada")), bytes = test.cache.data.getData(Avatar(name: "grace"))
        #expect(image.key == "avatar of ada" && bytes.key == "avatar of grace")
        _ = try await (image.value, bytes.value)
        #expect(test.cache.cachedTier(for: Avatar(name: "ada")) == .memory)
        #expect(test.cache.cachedTier(for: url("ada")) == nil)
        #expect(test.cache.data.hasData(for: Avatar(name: "grace").dataRequest))

        let open = test.cache.getImage(Avatar(name: "alan")) { _ in }
        let read = test.cache.data.getData(Avatar(name: "kurt")) { _ in }
        let transfers = [try await test.transport.nextTransfer(), try await test.transport.nextTransfer()]
        test.cache.moveTaskToSlowQueue(Avatar(name: "alan"))
        test.cache.data.moveTaskToSlowQueue(Avatar(name: "kurt"))
        for transfer in transfers { try await transfer.wait { $0.queue == .slow } }
        #expect(open.queue == .slow && read.queue == .slow)
        test.cache.cancel(Avatar(name: "alan"))
        test.cache.data.cancel(Avatar(name: "kurt"))
        #expect(await open.error == .cancelled)
        #expect(await read.error == .cancelled)
    }
}
