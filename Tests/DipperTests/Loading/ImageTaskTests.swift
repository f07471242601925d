import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A task for a picture", .timeLimit(.minutes(5)))
struct ImageTaskTests {
    private let picture = Image.sample()

    /// Loads what a task of either kind is for, by the members that both kinds have.
    private func load<Handle: FetchTask>(_ task: Handle) async throws -> (value: Handle.Value, status: Int) {
        let hooked = Box(false)
        task.onProgress { _ in }.onRetry {}.onFail { _, _ in }.then { _ in hooked.update { $0 = true } }
        let response = try await task.response
        #expect(await settle { hooked.value })
        return (response.value, response.status)
    }

    @Test("code for both kinds of tasks gets a picture from one and bytes from the other")
    func bothKinds() async throws {
        let test = TestImageCache()
        let file = try picture.png
        test.transport.script(url("a.png"), [.body(file)])
        test.transport.script(url("b.png"), [.body(file)])
        let loaded = try await load(test.cache.getImage(url("a.png")))
        #expect(loaded.value.pixels == picture.pixels && loaded.status == 200)
        let bytes = try await load(test.cache.data.getData(url("b.png")))
        #expect(bytes.value == file && bytes.status == 200)
        await test.cache.shutdown()
    }

    @Test("the result is the picture, or the error with which the task ends")
    func result() async throws {
        let test = TestImageCache()
        test.transport.script(url("a.png"), [.body(try picture.png)])
        test.transport.script(url("b.png"), [.status(404)])
        #expect(try await test.cache.getImage(url("a.png")).result.get().pixels == picture.pixels)
        guard case .failure(let error) = await test.cache.getImage(url("b.png")).result else {
            Issue.record("the task has ended with a picture")
            return
        }
        #expect(error == .status(404))
        await test.cache.shutdown()
    }

    @Test("a task is equal to itself alone, and is removed from a set by its identity")
    func identity() async throws {
        let test = TestImageCache()
        let (one, two) = (test.cache.getImage(url("a.png")), test.cache.getImage(url("a.png")))
        var tasks: Set<ImageTask> = [one, two, one]
        #expect(tasks.count == 2 && one != two)
        tasks.remove(one)
        #expect(tasks == [two])
        await test.cache.shutdown()
    }

    @Test("a task prints its key without secrets, its queue and its state, and dumps no more")
    func description() async {
        let test = TestImageCache()
        test.network.isUp = false
        let task = test.cache.slowGetImage(url("a.png?token=secret"))
        #expect(await settle { task.state == .parked })
        #expect("\(task)" == "http://host.test/a.png?token=*** slow parked")
        #expect(String(reflecting: task) == "\(task)")
        var dumped = ""
        dump(task, to: &dumped)
        #expect(!dumped.contains("secret"))
        await test.cache.shutdown()
    }
}
