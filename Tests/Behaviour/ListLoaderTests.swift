import TestSupport
import Testing

@Suite("A list and its loader", .timeLimit(.minutes(2)))
struct ListLoaderTests {
    private let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 100 }

    private func list(
        _ test: TestImageCache, count: Int = 1000, _ change: (inout ListOptions) -> Void = { _ in }
    ) -> ListLoader {
        var options = ListOptions()
        change(&options)
        return ListLoader(test.cache, count: count, options: options, clock: test.clock) { [Self.request($0)] }
    }

    /// Shows other rows a second later.
    private func scroll(_ list: ListLoader, to rows: Range<Int>) {
        test.clock.advance(by: .seconds(1))
        list.update(visible: rows)
    }

    private static func address(_ row: Int) -> URL { url("row/\(row)") }
    private static func request(_ row: Int) -> ImageRequest { ImageRequest(address(row)) }
    private func row(_ transfer: ScriptedTransfer) -> Int { Int(transfer.request.url.lastPathComponent) ?? -1 }

    private func transfers(_ test: TestImageCache, _ rows: Range<Int>) async throws -> [Int: ScriptedTransfer] {
        for row in rows { try await test.transport.waitForTransfers(1, of: Self.address(row)) }
        return Dictionary(grouping: test.transport.transfers, by: row).compactMapValues(\.last)
    }

    private func finish(_ transfer: ScriptedTransfer) throws { transfer.finish(with: try Image.sample().png) }

    @Test("rows on screen are fetched urgently and at once, the next ones one by one behind them")
    func order() async throws {
        let test = TestImageCache { $0.data.fastQueue.maxConcurrent = 4 }
        for row in 0..<30 { try test.script(Self.address(row), .sample()) }
        let list = list(test) { $0.maxPrefetches = 1 }
        list.update(visible: 10..<14)
        try await test.transport.waitForTransfers(4 + 8)
        await test.cache.idle()
        let rows = test.transport.transfers.map(row)
        #expect(Set(rows.prefix(4)) == Set(10..<14) && Array(rows.dropFirst(4).prefix(4)) == [14, 9, 15, 8])
        #expect(rows.count == 12 && Set(rows) == Set(6..<18))
        withExtendedLifetime(list) {}
    }

    @Test("scrolling on demotes what left the screen, cancels what is far away, and fetches nothing twice")
    func scrolling() async throws {
        let list = list(test)
        list.update(visible: 0..<2)
        let zero = try #require(try await transfers(test, 0..<2)[0])
        scroll(list, to: 1..<3)
        let two = try #require(try await transfers(test, 2..<3)[2])
        #expect(two.queue == .fast)
        try await zero.wait { $0.queue == .slow }
        #expect(!zero.isCancelled && test.transport.transfers(of: Self.address(1)).count == 1)
        scroll(list, to: 500..<502)
        for transfer in [zero, two] { try await transfer.wait { $0.isCancelled } }
        scroll(list, to: 0..<1)
        try await test.transport.waitForTransfers(2, of: Self.address(0))
    }

    @Test("a prefetched row that comes on screen is promoted in place; one that failed is asked for again")
    func promotion() async throws {
        let list = list(test) {
            $0.maxPrefetches = 1
            $0.screensAhead = 6
        }
        list.update(visible: 0..<1)
        try finish(try await test.transport.nextTransfer())
        let failing = try await test.transport.nextTransfer()
        #expect(row(failing) == 1 && failing.queue == .slow)
        failing.finish(with: Data(), status: 400)
        let prefetch = try await test.transport.nextTransfer()
        #expect(row(prefetch) == 2 && prefetch.queue == .slow)
        scroll(list, to: 1..<3)
        try await prefetch.wait { $0.queue == .fast }
        try await test.transport.waitForTransfers(2, of: Self.address(1))
        #expect(!prefetch.isCancelled && test.transport.transfers(of: Self.address(2)).count == 1)
    }

    @Test("nothing is fetched while the list rushes by; what it comes to rest at is, and at once")
    func rushing() async throws {
        let list = list(test)
        for step in 1..<20 {
            test.clock.advance(by: .milliseconds(16))
            list.update(visible: step * 5..<step * 5 + 10)
        }
        try await test.clock.wake(after: .milliseconds(200))
        let seen = try await transfers(test, 95..<105)
        for row in 95..<105 { try await seen[row]?.wait { $0.queue == .fast } }
        // Until it was seen to rush the list moved three screens at most.
        for (row, transfer) in seen where row < 95 {
            #expect(row < 40)
            try await transfer.wait { $0.isCancelled }
        }
        withExtendedLifetime(list) {}
    }

    @Test("displays follow their rows: a glimpse of what the cache has, the rest once the list stays")
    func displays() async throws {
        try test.cache.addImage(.sample(), for: Self.address(50))
        let list = list(test) { $0.maxPrefetches = 0 }
        let known = Screen(test.cache), other = Screen(test.cache)
        var gone = (0..<20).map { _ in Screen(test.cache) }
        for step in 0..<10 {
            test.clock.advance(by: .milliseconds(16))
            list.update(visible: step * 5..<step * 5 + 10)
        }
        for screen in gone { screen.perform { list.attach($0, to: 52) } }
        known.perform { list.attach($0, to: 50, placeholder: .color(.black)) }
        other.perform { list.attach($0, to: 51, placeholder: .color(.black)) }
        #expect(known.told == ["image 16x12"] && other.told == ["placeholder 000000ff"])
        #expect(test.transport.transfers(of: Self.address(51)).isEmpty)
        // Displays that go without a word hold nothing up.
        gone = []
        try await test.clock.wake(after: .milliseconds(200))
        let transfer = try #require(try await transfers(test, 51..<52)[51])
        // It is told on the display's queue: an answer that comes before would leave nothing to show.
        try await other.waits(for: "activity")
        #expect(transfer.queue == .fast)
        try finish(transfer)
        try await other.waits(for: "image 16x12")
        // Attached to a row that cannot be seen, or that there is not, a display waits.
        for row in [5000, 900] {
            other.perform { list.attach($0, to: row) }
            #expect(other.told.last == "nothing")
        }
        try await test.passThrough()
        #expect(test.transport.transfers(of: Self.address(900)).isEmpty)
        other.perform { list.detach($0) }
        scroll(list, to: 900..<910)
        try await test.transport.waitForTransfers(1, of: Self.address(900))
        #expect(!other.binding.isOnScreen)
    }

    @Test("what an attached display waits for is cancelled when its row is far away")
    func farDisplay() async throws {
        let list = list(test) { $0.maxPrefetches = 0 }
        let screen = Screen(test.cache)
        list.update(visible: 0..<2)
        screen.perform { list.attach($0, to: 0) }
        let transfer = try #require(try await transfers(test, 0..<1)[0])
        test.clock.advance(by: .seconds(1))
        screen.perform { _ in list.update(visible: 500..<502) }
        try await transfer.wait { $0.isCancelled }
        screen.perform { list.attach($0, to: 501) }
        try await test.transport.waitForTransfers(1, of: Self.address(501))
        screen.perform { list.detach($0) }
        #expect(!screen.binding.isOnScreen)
    }

    @Test("a reload makes the calls anew, also while calls are being arranged; letting go of the loader ends them")
    func ends() async throws {
        for _ in 0..<20 {
            let test = TestImageCache()
            var list: ListLoader? = list(test) { $0.maxPrefetches = 0 }
            list?.update(visible: 0..<2)
            list?.reload(count: 50) { [Self.request($0 + 100)] }
            list?.update(visible: 0..<2)
            let seen = try await transfers(test, 100..<102)
            for (row, transfer) in seen where row < 100 { try await transfer.wait { $0.isCancelled } }
            #expect([100, 101].allSatisfy { seen[$0]?.isCancelled == false })
            list = nil
            for row in 100..<102 { try await seen[row]?.wait { $0.isCancelled } }
            await test.cache.idle()
            await test.cache.shutdown()
        }
    }

    @Test("many updates from many threads leave no call behind for rows that nobody sees")
    func manyUpdates() async throws {
        let list = list(test)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask {
                    for step in 0..<100 {
                        let first = (thread * 131 + step * 7) % 990
                        list.update(visible: first..<first + 10)
                    }
                }
            }
        }
        scroll(list, to: 500..<510)
        _ = try await transfers(test, 500..<510)
        list.reload(count: 0) { _ in [] }
        // Returns when all calls have been cancelled.
        await test.cache.idle()
        #expect(test.transport.transfers.allSatisfy { $0.isCancelled })
    }

    @Test("rows without pictures take no place among the prefetches")
    func emptyRows() async throws {
        let list = ListLoader(test.cache, count: 100, clock: test.clock) { $0 % 10 == 9 ? [Self.request($0)] : [] }
        list.update(visible: 0..<5)
        let transfer = try await test.transport.nextTransfer()
        #expect(row(transfer) == 9 && transfer.queue == .slow)
        withExtendedLifetime(list) {}
    }
}
