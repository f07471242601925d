import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("The disk is asked for what is wanted most, and not for what nobody wants", .timeLimit(.minutes(2)))
struct LookUpTests {
    private let keys = (0..<40).map { "k\($0)" }

    private func open(_ disk: FailingDisk) async throws -> TestCache {
        let test = TestCache(folder: TemporaryFolder()) {
            $0.memoryLimit = 0
            $0.retryPolicy = .never
            disk.attach(to: &$0)
        }
        try await test.cache.keep(keys + ["urgent"], size: 9_000)
        disk.hold([.read])
        return test
    }

    private func request(_ key: String, _ priority: Priority = .low) -> DataRequest {
        DataRequest(url(key)).with(\.key, CacheKey(key)).with(\.priority, priority)
    }

    @Test("a call of high priority is answered before those that wait for the disk, also for an entry of theirs")
    func order() async throws {
        let disk = FailingDisk()
        let test = try await open(disk)
        let order = Box<[String]>([])
        var tasks: [DataTask] = []
        func call(_ name: String, _ request: DataRequest) {
            tasks.append(test.cache.getData(request).onEnd { _ in order.update { $0.append(name) } })
        }
        for key in keys { call(key, request(key)) }
        try await disk.waitForHeld(1)
        call("urgent", request("urgent", .high))
        call("again", request("k39", .high))
        disk.release()
        for task in tasks { #expect(try await task.response.source == .disk) }
        await test.cache.idle()
        let early = order.value.prefix(12)
        #expect(early.contains("urgent") && early.contains("again"), "\(order.value)")
        #expect(test.transport.transfers.isEmpty)
    }

    @Test("a call that is cancelled while it waits for the disk is not looked up")
    func cancelled() async throws {
        let disk = FailingDisk()
        let test = try await open(disk)
        disk.fail([.read])
        let tasks = keys.map { test.cache.getData(request($0)) }
        try await disk.waitForHeld(1)
        for task in tasks { task.cancel() }
        for task in tasks { #expect(await task.error == .cancelled) }
        disk.release()
        await test.cache.idle()
        #expect(disk.refusals < 12)
        #expect(test.transport.transfers.isEmpty)
    }

    @Test("a picture that is added while the disk is asked is what later calls get")
    func added() async throws {
        let (disk, folder, a) = (FailingDisk(), TemporaryFolder(), url("a"))
        let test = TestImageCache(folder: folder) { disk.attach(to: &$0.data) }
        try test.script(a, .sample(seed: 3))
        try await test.load(a)
        test.cache.clearMemory()
        disk.hold([.read])
        let task = test.cache.getImage(a)
        try await disk.waitForHeld(1)
        let new = Image.sample(seed: 90)
        try test.cache.addImage(new, for: a)
        disk.release()
        _ = try await task.value
        await test.cache.idle()
        #expect(try await test.pixels(a) == new.pixels)
        await test.cache.shutdown()
        let restarted = TestImageCache(folder: folder)
        #expect(try await restarted.pixels(a) == new.pixels)
        #expect(restarted.transport.transfers.isEmpty)
    }
}
