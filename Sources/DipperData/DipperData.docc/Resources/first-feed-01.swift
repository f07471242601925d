import DipperData

@main
struct FeedReader {
    static func main() async throws {
        let data = try await DataCache.shared.getData("https://www.jsonfeed.org/feed.json").value
        print(data.count, "bytes")
    }
}
