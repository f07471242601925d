/// `feed.json`: a JSON Feed, of which the sample needs the pictures.
struct Feed: Decodable {
    struct Item: Decodable {
        /// A path relative to the feed.
        let image: String
    }

    let items: [Item]
}
