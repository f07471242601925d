import Dipper
import DipperData
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
        func note(_ key: String, _ task: DataTask) -> DataTask {
            task.onEnd { _ in order.update { $0.append(key) } }
            return task
        }
        var tasks = keys.map { note($0, test.cache.getData(request($0))) }
        try await disk.waitForHeld(1)
        tasks.append(note("urgent", test.cache.getData(request("urgent", .high))))
        tasks.append(note("again", test.cache.getData(request("k39", .high))))
        disk.release()
        for task in tasks { #expect(try await task.response.source == .disk) }
        await test.cache.idle()
        let place = try #require(order.value.firstIndex(of: "urgent"))
        let again = try #require(order.value.firstIndex(of: "again"))
        #expect(place < 12 && again < 12, "\(order.value)")
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
        let (old, new) = (Image.sample(seed: 3), Image.sample(seed: 90))
        var test = TestImageCache(folder: folder) { disk.attach(to: &$0.data) }
        try test.script(a, old)
        _ = try await test.cache.getImage(a).value
        await test.cache.idle()
        test.cache.clearMemory()
        disk.hold([.read])
        let task = test.cache.getImage(a)
        try await disk.waitForHeld(1)
        try test.cache.addImage(new, for: a)
        disk.release()
        _ = try await task.value
        await test.cache.idle()
        let later = try await test.cache.getImage(a).value
        await test.cache.shutdown()
        test = TestImageCache(folder: folder)
        let restarted = try await test.cache.getImage(a).value
        #expect(later.pixels == new.pixels && restarted.pixels == new.pixels)
        #expect(test.transport.transfers.isEmpty)
    }
}
