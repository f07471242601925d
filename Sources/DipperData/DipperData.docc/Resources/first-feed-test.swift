import DipperData
import DipperTesting
import Foundation
import Testing

@testable import FeedReader

@Suite("The feed reader", .timeLimit(.minutes(1)))
struct FeedReaderTests {
    let transport = ScriptedTransport()
    let network = ManualNetwork(isUp: false)
    let clock = ManualClock()
    let date = ManualDate()

    @Test("waits for the network at the first start, and shows what it has at the next")
    func startsOffline() async throws {
        let source = try #require(URL(string: "https://example.org/feed.json"))
        let file = #"{"items": [{"title": "Hello", "date_published": "2026-11-01T08:00:00Z"}]}"#
        transport.script(source, [.body(Data(file.utf8))])
        var configuration = DataCache.Configuration()
        configuration.transport = transport
        configuration.networkMonitor = network
        configuration.clock = clock
        configuration.now = { [date] in date.now }
        let reader = FeedReader(cache: DataCache(configuration), source: source.absoluteString)

        let (titles, texts) = (WatchedState<[String]>([]), WatchedState<[String]>([]))
        let open: @Sendable () async throws -> Void = {
            try await reader.open { feed in
                titles.update { $0 += feed.items.map(\.title) }
            } say: { text in
                texts.update { $0.append(text) }
            }
        }
        let opening = Task { try await open() }
        try await reader.cache.waitForParked()
        #expect(titles.value.isEmpty && texts.value.count == 1)

        network.isUp = true
        try await clock.waitForSleepers(1, dueWithin: .seconds(5))
        clock.advance(by: .seconds(5))
        try await titles.wait { $0 == ["Hello"] }
        try await opening.value

        network.isUp = false
        try await open()
        #expect(titles.value == ["Hello", "Hello"] && transport.transfers.count == 1)

        date.advance(by: 30 * 86_400)
        try await open()
        #expect(titles.value == ["Hello", "Hello", "Hello"] && transport.transfers.count == 1)
        await reader.cache.shutdown()
    }
}
