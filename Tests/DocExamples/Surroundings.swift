import Dipper
import DipperTesting
import Foundation
import Synchronization

// What the examples of the documentation comments use without declaring it: a program's own things. The examples are
// compiled, never run.

/// A widget.
final class PhotoView: ImageDisplay, Sendable {
    private let shown = Mutex<(image: Image?, caption: String)>((nil, ""))
    var image: Image? {
        get { shown.withLock { $0.image } }
        set { shown.withLock { $0.image = newValue } }
    }
    var caption: String {
        get { shown.withLock { $0.caption } }
        set { shown.withLock { $0.caption = newValue } }
    }

    func show(_ image: Image) { self.image = image }
    func show(_ content: DisplayContent, _ transition: ImageTransition) { image = content.image }
}

struct ProgressBar: Sendable {
    func set(_ fraction: Double) {}
    func hide() {}
}

struct Parser: Sendable {
    func parse(_ bytes: Data) {}
}

struct Vault: Sendable {
    func open(_ bytes: Data) throws -> Data { bytes }
}

struct Session: Sendable {
    var account = "alice"
    func token(renewing: Bool) async -> String { "token" }
    func renew() async -> Bool { true }
    func signature(of url: URL) -> String { "signature" }
}

struct SessionExpired: Error {
    var account = "alice"
}

func signIn(_ account: String) {}

struct Item: Codable, Sendable {}
struct Feed: Codable, Sendable { var items: [Item] = [] }
struct Table: Codable, Sendable {}

enum CSV {
    static func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        throw CocoaError(.coderReadCorrupt)
    }
}

class Surroundings {
    static let url = URL(filePath: "/")
    static let (nextURL, feedURL, video, folder, file, filmFile) = (url, url, url, url, url, url)
    static let (smallURL, largeURL) = (url, url)
    static let (urls, photos) = ([url], [url])
    static let (bytes, house, chunks) = (Data(), Data(), [Data()])
    static let (token, password) = ("", "")
    static let (bar, parser, vault, session) = (ProgressBar(), Parser(), Vault(), Session())
    static let view = PhotoView()
    static let image = Image.sample()
    static let (mirrored, picture, thumbnails) = (image, image, [image])
    static let (transport, disk, clock) = (ScriptedTransport(), FailingDisk(), ManualClock())
    nonisolated(unsafe) static var transfer: ScriptedTransfer! = nil
}

final class PictureExamples: Surroundings {
    static let (cache, avatars) = (ImageCache(), ImageCache())
    nonisolated(unsafe) static var configuration = ImageCache.Configuration()
    static let task = cache.getImage(url)
    static let binding = ImageBinding(view)
    static let prefetcher = ImagePrefetcher(cache, urls: urls)
    static let list = ListLoader(cache, count: 1) { _ in [] }
    static let player = AnimationPlayer(image)
}

final class DataExamples: Surroundings {
    static let cache = DataCache()
    nonisolated(unsafe) static var configuration = DataCache.Configuration()
    static let task = cache.getData(url)
    static let request = DataRequest(url)
    static let prefetcher = DataPrefetcher(cache, urls: urls)
}
