import DipperData
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
    static func main() async throws {
        let source = "https://www.jsonfeed.org/feed.json"
        let feed = try await DataCache.shared.getValue(Feed.self, from: source, decoder: Feed.decoder).value
        for item in feed.items { print(item.datePublished, item.title) }
    }
}
