/// A JSON Feed (`feed.json`), of which the sample reads only the pictures.
struct Feed: Decodable {
    struct Item: Decodable {
        /// A path relative to the feed.
        let image: String
    }

    let items: [Item]
}
