import Foundation
import TestSupport
import Testing

// Serialized, because there is one shared cache of each kind.
@Suite("The shared caches and caches with a name", .serialized, .timeLimit(.minutes(2)))
struct SharedCacheTests {
    private let picture = Image.sample()

    @Test("a shared cache that is set is used by what is made from then on, and what was made before keeps the earlier")
    func setting() async throws {
        let (first, second) = (TestImageCache(), TestImageCache())
        for (name, test) in [("first", first), ("second", second)] {
            for use in ["bound", "fetched", "listed"] { try test.script(url("\(name)/\(use)"), picture) }
        }
        let shared = TestCache()
        shared.transport.script(url("data"), [.text("1")])
        DataCache.shared = shared.cache
        #expect(DataCache.shared === shared.cache)
        #expect(await DataPrefetcher(urls: [url("data")]).value.completed.count == 1)
        ImageCache.shared = first.cache
        let (display, early) = (RecordingDisplay(), RecordingDisplay())
        let earlier = ImageBinding(early, queue: .inPlace)
        ImageCache.shared = second.cache
        #expect(ImageCache.shared === second.cache)
        let binding = ImageBinding(display, queue: .inPlace)
        try await earlier.setImageAndWait(url("first/bound"))
        try await binding.setImageAndWait(url("second/bound"))
        #expect(await ImagePrefetcher(urls: [url("second/fetched")]).value.completed.count == 1)
        let list = ListLoader(count: 1) { _ in [ImageRequest(url("second/listed"))] }
        list.update(visible: 0..<1)
        try await second.transport.waitForTransfers(1, of: url("second/listed"))
        #expect(first.transport.transfers.count == 1 && second.transport.transfers.count == 3)
        withExtendedLifetime(list) {}
    }

    @Test("a shared cache that is replaced shuts down when nobody has it any more")
    func replaced() async throws {
        ImageCache.shared = ImageCache()
        let events = ImageCache.shared.events
        let task = ImageCache.shared.getImage("")
        #expect(await task.error == .invalidURL)
        ImageCache.shared = ImageCache()
        // They end when the cache has shut down.
        for await _ in events {}
    }

    @Test("the limit of the bytes of an image cache in memory is the one that was set, also if that is the default")
    func limits() async throws {
        let byDefault = DataCache.Configuration().memoryLimit
        let limits = [nil, byDefault, 1 << 20].map { limit in
            TestImageCache(folder: TemporaryFolder()) { if let limit { $0.data.memoryLimit = limit } }.cache.data
                .memoryLimit
        }
        #expect(limits == [0, byDefault, 1 << 20])
    }

    @Test("the folder of no cache lies in that of another one, whatever it is called")
    func folders() async throws {
        let names =
            ["avatars", "Avatars", "", ".", "..", "../data", "/etc", "a/b", "a%2Fb", "ä b", "images", "data"]
            + ["а", "б", String(repeating: "а", count: 999)].map { String(repeating: "ж", count: 43) + $0 }
        let folders =
            [DataCache.Configuration.defaultDirectory, ImageCache.Configuration.defaultDirectory]
            + names.compactMap { DataCache.Configuration(name: $0).directory }
            + names.compactMap { ImageCache.Configuration(name: $0).data.directory }
        let paths = folders.map { $0.standardizedFileURL.path }
        #expect(Set(paths).count == 2 + 2 * names.count)
        let parent = try #require(paths.first).split(separator: "/").dropLast()
        for path in paths {
            #expect(path.split(separator: "/").starts(with: parent), "\(path)")
            #expect(path.split(separator: "/").allSatisfy { $0.utf8.count <= 255 }, "a file system has such names")
            #expect(!paths.contains { $0 != path && $0.hasPrefix(path + "/") }, "\(path)")
        }
        let configuration = ImageCache.Configuration(name: "avatars")
        #expect(configuration.data.name == "avatars" && DataCache.Configuration(name: "feeds").name == "feeds")
    }
}
