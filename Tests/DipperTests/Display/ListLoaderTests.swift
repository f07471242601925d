@testable import Dipper
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A list and its loader", .timeLimit(.minutes(5)))
struct ListLoaderTests {
    private static func request(_ row: Int) -> ImageRequest { ImageRequest(url("row/\(row)")) }

    private func list(
        _ test: TestImageCache, count: Int = 1000, _ change: (inout ListOptions) -> Void = { _ in }
    ) -> ListLoader {
        var options = ListOptions()
        change(&options)
        return ListLoader(test.cache, count: count, options: options, clock: test.clock) { [Self.request($0)] }
    }

    private func row(_ transfer: ScriptedTransfer) -> Int { Int(transfer.request.url.lastPathComponent) ?? -1 }

    private func rows(_ test: TestImageCache, _ queue: FetchQueue? = nil) -> [Int] {
        test.transport.transfers.filter { queue == nil || $0.queue == queue }.map(row)
    }

    private func answerAll(_ test: TestImageCache) throws {
        let file = try Image.sample().png
        for row in 0..<1000 { test.transport.script(url("row/\(row)"), [.body(file)]) }
    }

    @Test("rows on screen are fetched urgently and at once, the next ones one by one behind them")
    func order() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 4 }
        try answerAll(test)
        let list = list(test) { $0.maxPrefetches = 1 }
        list.update(visible: 10..<14)
        #expect(await settle { test.transport.transfers.count == 4 + 8 })
        #expect(Set(rows(test).prefix(4)) == Set(10..<14))
        #expect(Array(rows(test).dropFirst(4).prefix(4)) == [14, 9, 15, 8])
        #expect(Set(rows(test)) == Set(6..<18))
        await test.cache.shutdown()
    }

    @Test("scrolling on demotes what left the screen, promotes what came, and fetches nothing twice")
    func scrolling() async throws {
        let test = TestImageCache()
        let list = list(test)
        list.update(visible: 0..<2)
        let first = try await test.transport.nextTransfer(), second = try await test.transport.nextTransfer()
        #expect(Set([row(first), row(second)]) == [0, 1])
        test.clock.advance(by: .seconds(1))
        list.update(visible: 1..<3)
        let third = try await test.transport.nextTransfer()
        #expect(row(third) == 2 && third.queue == .fast)
        let zero = row(first) == 0 ? first : second
        #expect(await settle { zero.queue == .slow })
        #expect(!zero.isCancelled)
        // Far away, it is cancelled.
        test.clock.advance(by: .seconds(1))
        list.update(visible: 500..<502)
        #expect(await settle { zero.isCancelled && third.isCancelled })
        test.clock.advance(by: .seconds(1))
        list.update(visible: 0..<1)
        #expect(await settle { test.transport.transfers(of: url("row/0")).count == 2 })
        await test.cache.shutdown()
    }

    @Test("a prefetched row that comes on screen is promoted in place")
    func promotion() async throws {
        let test = TestImageCache()
        let list = list(test) { $0.maxPrefetches = 1 }
        list.update(visible: 0..<1)
        (try await test.transport.nextTransfer()).finish(with: try Image.sample().png)
        let prefetch = try await test.transport.nextTransfer()
        #expect(row(prefetch) == 1 && prefetch.queue == .slow)
        test.clock.advance(by: .seconds(1))
        list.update(visible: 1..<2)
        #expect(await settle { prefetch.queue == .fast })
        #expect(!prefetch.isCancelled && test.transport.transfers(of: url("row/1")).count == 1)
        await test.cache.shutdown()
    }

    @Test("nothing is fetched while the list rushes by; what it comes to rest at is, and at once")
    func rushing() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 20 }
        let list = list(test)
        for step in 1..<20 {
            test.clock.advance(by: .milliseconds(16))
            list.update(visible: step * 5..<step * 5 + 10)
        }
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .milliseconds(200))
        #expect(
            await settle {
                Set(test.transport.transfers.filter { $0.queue == .fast && !$0.isCancelled }.map(row)) == Set(95..<105)
            })
        // Until it was seen to rush the list moved three screens at most.
        #expect(rows(test).allSatisfy { $0 < 40 || $0 >= 95 })
        await test.cache.shutdown()
    }

    @Test("displays follow their rows: a glimpse of what the cache has, the rest once the list stays")
    func displays() async throws {
        let test = TestImageCache()
        let known = url("row/50")
        test.transport.script(known, [.body(try Image.sample().png)])
        _ = try await test.cache.getImage(known).value
        let list = list(test) { $0.maxPrefetches = 0 }
        let shown = TestDisplay(test.cache), other = TestDisplay(test.cache)
        for step in 0..<10 {
            test.clock.advance(by: .milliseconds(16))
            list.update(visible: step * 5..<step * 5 + 10)
        }
        shown.perform { list.attach($0, to: 50, placeholder: .color(.black)) }
        other.perform { list.attach($0, to: 51, placeholder: .color(.black)) }
        #expect(shown.told == ["image 16x12"])
        #expect(other.told == ["placeholder 000000ff"])
        #expect(test.transport.transfers(of: url("row/51")).isEmpty)
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .milliseconds(200))
        #expect(await settle { test.transport.transfers(of: url("row/51")).first?.queue == .fast })
        // It is told on the display's queue: an answer that comes before would leave nothing to show.
        #expect(await settle { other.told.last == "activity" })
        test.transport.transfers(of: url("row/51")).first?.finish(with: try Image.sample().png)
        #expect(await settle { other.told.last == "image 16x12" })
        // Attached to a row that cannot be seen, a display waits.
        other.perform { list.attach($0, to: 900) }
        #expect(other.told.last == "nothing" && test.transport.transfers(of: url("row/900")).isEmpty)
        other.perform { list.detach($0) }
        test.clock.advance(by: .seconds(1))
        list.update(visible: 900..<910)
        #expect(await settle { test.transport.transfers(of: url("row/900")).count == 1 })
        #expect(!other.binding.isOnScreen)
        await test.cache.shutdown()
    }

    @Test("letting go of the loader ends its calls; a reload makes them anew")
    func ends() async throws {
        let test = TestImageCache()
        var list: ListLoader? = list(test)
        list?.update(visible: 0..<1)
        let first = try await test.transport.nextTransfer()
        list?.reload(count: 1) { [Self.request($0)] }
        list?.update(visible: 0..<1)
        #expect(await settle { test.transport.transfers.count { !$0.isCancelled } == 1 })
        list = nil
        #expect(await settle { test.transport.transfers.allSatisfy(\.isCancelled) })
        #expect(await settle { first.isCancelled })
        await test.cache.shutdown()
    }

    @Test("many updates from many threads leave no call behind for rows that nobody sees")
    func stress() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 100 }
        let list = list(test)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask {
                    for step in 0..<200 {
                        let first = (thread * 131 + step * 7) % 990
                        list.update(visible: first..<first + 10)
                    }
                }
            }
        }
        test.clock.advance(by: .seconds(1))
        list.update(visible: 500..<510)
        @Sendable func open() -> Set<Int> { Set(test.transport.transfers.filter { !$0.isCancelled }.map(row)) }
        #expect(await settle { open().isSuperset(of: 500..<510) && open().isSubset(of: 480..<530) })
        list.reload(count: 0) { _ in [] }
        #expect(await settle { open().isEmpty && test.cache.objects.requestCount() == 0 })
        await test.cache.shutdown()
    }

    @Test("a reload while calls are being arranged makes them anew")
    func reloadRace() async throws {
        for _ in 0..<50 {
            let test = TestImageCache()
            let list = list(test) { $0.maxPrefetches = 0 }
            list.update(visible: 0..<2)
            list.reload(count: 50) { [Self.request($0 + 100)] }
            list.update(visible: 0..<2)
            #expect(await settle { Set(test.transport.transfers.filter { !$0.isCancelled }.map(row)) == [100, 101] })
            await test.cache.shutdown()
        }
    }

    @Test("rows without pictures take no place among the prefetches")
    func emptyRows() async throws {
        let test = TestImageCache()
        let list = ListLoader(test.cache, count: 100, clock: test.clock) { $0 % 10 == 9 ? [Self.request($0)] : [] }
        list.update(visible: 0..<5)
        #expect(await settle { rows(test, .slow) == [9] })
        await test.cache.shutdown()
    }

    @Test("a row whose prefetch failed is asked for again when it comes on screen")
    func failedRows() async throws {
        let test = TestImageCache()
        let list = list(test) {
            $0.maxPrefetches = 1
            $0.screensAhead = 6
        }
        list.update(visible: 0..<1)
        (try await test.transport.nextTransfer()).finish(with: try Image.sample().png)
        let prefetch = try await test.transport.nextTransfer()
        #expect(row(prefetch) == 1)
        prefetch.finish(with: Data(), status: 404)
        let next = try await test.transport.nextTransfer()
        #expect(row(next) != 1)
        test.clock.advance(by: .seconds(1))
        list.update(visible: 1..<2)
        #expect(await settle { test.transport.transfers(of: url("row/1")).count == 2 })
        await test.cache.shutdown()
    }

    @Test("what an attached display waits for is cancelled when its row is far away, and when it is detached")
    func farDisplay() async throws {
        let test = TestImageCache()
        let list = list(test) { $0.maxPrefetches = 0 }
        let shown = TestDisplay(test.cache)
        list.update(visible: 0..<2)
        shown.perform { list.attach($0, to: 0) }
        #expect(await settle { test.transport.transfers(of: url("row/0")).count == 1 })
        test.clock.advance(by: .seconds(1))
        shown.perform { _ in list.update(visible: 500..<502) }
        #expect(await settle { test.transport.transfers(of: url("row/0")).allSatisfy(\.isCancelled) })
        shown.perform { list.attach($0, to: 501) }
        #expect(await settle { test.transport.transfers(of: url("row/501")).count == 1 })
        shown.perform { list.detach($0) }
        #expect(!shown.binding.isOnScreen)
        // A row that there is not shows nothing.
        shown.perform { list.attach($0, to: 5000) }
        #expect(shown.told.last == "nothing")
        await test.cache.shutdown()
    }

    @Test("at rest, displays are told, although others have gone without a word")
    func restWithDeadDisplays() async throws {
        let test = TestImageCache()
        let list = list(test) { $0.maxPrefetches = 0 }
        var dead = (0..<20).map { _ in TestDisplay(test.cache) }
        let shown = TestDisplay(test.cache)
        for step in 0..<10 {
            test.clock.advance(by: .milliseconds(16))
            list.update(visible: step * 5..<step * 5 + 10)
        }
        for display in dead { display.perform { list.attach($0, to: 52) } }
        shown.perform { list.attach($0, to: 51) }
        #expect(!shown.told.contains("activity"))
        dead = []
        try await test.clock.waitForSleepers(1)
        test.clock.advance(by: .milliseconds(200))
        #expect(await settle { shown.told.contains("activity") })
        await test.cache.shutdown()
    }
}
