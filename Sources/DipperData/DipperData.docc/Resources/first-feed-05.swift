import DipperData
import Dispatch
import Foundation

struct Feed: Codable, Sendable {
    struct Item: Codable, Sendable {
        var title: String
        var datePublished: Date
    }

    var items: [Item]

    static let decoder = JSONValueDecoder("feeds") { decoder in
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        decoder.dateDecodingStrategy = .iso8601
    }
}

@main
struct FeedReader {
    let cache: DataCache
    let source: String

    func open(show: @Sendable (Feed) -> Void, say: @escaping @Sendable (String) -> Void) async throws {
        let kept = await cache.value(Feed.self, for: source, decoder: Feed.decoder)
        if let kept { show(kept) }

        let task = cache.getValue(Feed.self, from: source, decoder: Feed.decoder)
        task.onFail { error, isFatal in
            if !isFatal { say("waiting: \(error.shortDescription)") }
        }
        let response = try await task.response
        if kept == nil || response.source == .network { show(response.value) }
    }

    static func main() async throws {
        let reader = FeedReader(cache: .shared, source: "https://www.jsonfeed.org/feed.json")
        let opening = Task {
            try await reader.open { feed in
                for item in feed.items { print(item.datePublished, item.title) }
            } say: { text in
                print(text)
            }
        }

        signal(SIGINT, SIG_IGN)
        let interrupt = DispatchSource.makeSignalSource(signal: SIGINT, queue: .global())
        interrupt.setEventHandler { @Sendable in opening.cancel() }
        interrupt.resume()

        do {
            try await opening.value
        } catch let error as DipperError where error.isCancelled {
            print("stopped")
        } catch {
            print(error)
        }
        await reader.cache.shutdown()
    }
}
