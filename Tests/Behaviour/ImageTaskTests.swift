import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A task for a picture", .timeLimit(.minutes(2)))
struct ImageTaskTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()

    /// Loads what a task of either kind is for, by the members that both kinds have.
    private func load<Handle: FetchTask>(_ task: Handle) async throws -> (value: Handle.Value, status: Int) {
        let hooked = Box(false)
        task.onProgress { _ in }.onRetry {}.onFail { _, _ in }.then { _ in hooked.update { $0 = true } }
        let response = try await task.response
        try await hooked.wait { $0 }
        return (response.value, response.status)
    }

    @Test("code for both kinds of tasks gets a picture from one and bytes from the other")
    func bothKinds() async throws {
        let test = TestImageCache()
        for address in [a, b] { try test.script(address, picture) }
        let loaded = try await load(test.cache.getImage(a))
        #expect(loaded.value.pixels == picture.pixels && loaded.status == 200)
        let bytes = try await load(test.cache.data.getData(b))
        #expect(try bytes.value == picture.png && bytes.status == 200)
        await test.cache.shutdown()
    }

    @Test("failures that may pass are told and retried, fatal ones end the task; hooks set late hear all")
    func hooks() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.status(503), try .image(picture)])
        test.transport.script(b, [.status(404)])
        let told = Box<[String]>([])
        let task = test.cache.getImage(a)
        try await test.clock.waitForSleepers(1)
        #expect(task.state == .parked)
        while test.clock.advanceToNextSleeper() {}
        #expect(try await task.result.get().pixels == picture.pixels)
        task.onFail { error, isFatal in told.update { $0.append("fail \(error) \(isFatal)") } }
            .onRetry { told.update { $0.append("retry") } }
            .then { _ in told.update { $0.append("then") } }
        await test.cache.idle()
        #expect(told.value == ["fail status 503 false", "retry", "then"] && task.attempts == 2)

        let fatal = Box<[Bool]>([])
        let failing = test.cache.getImage(b)
        failing.onFail { error, isFatal in fatal.update { $0.append(isFatal && error == .status(404)) } }
        guard case .failure(.status(404)) = await failing.result else {
            Issue.record("the task has not ended with its error")
            return
        }
        await test.cache.idle()
        #expect(fatal.value == [true] && test.transport.transfers(of: b).count == 1)
        await test.cache.shutdown()
    }

    @Test("a task prints its key without secrets, its queue and its state, and dumps no more")
    func description() async throws {
        let test = TestImageCache()
        let task = test.cache.slowGetImage(url("a.png?token=secret"))
        try await test.transport.nextTransfer().fail(with: .connectionLost)
        try await test.clock.waitForSleepers(1)
        #expect("\(task)" == "http://host.test/a.png?token=*** slow parked")
        #expect(String(reflecting: task) == "\(task)")
        var dumped = ""
        dump(task, to: &dumped)
        #expect(!dumped.contains("secret"))
        await test.cache.shutdown()
    }

    // MARK: Requests of the program's own types

    private struct Avatar: ImageRequestConvertible, DataRequestConvertible {
        let name: String
        var dataRequest: DataRequest { DataRequest(url(name)).with(\.key, CacheKey("avatar of \(name)")) }
        var imageRequest: ImageRequest { ImageRequest(dataRequest) }
    }

    @Test("a type of the program's own is loaded, moved and cancelled by the request that it builds")
    func ownRequests() async throws {
        let test = TestImageCache()
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
        await test.cache.shutdown()
    }
}
