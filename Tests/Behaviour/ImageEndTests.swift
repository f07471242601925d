import Dipper
import DipperTesting
import Dispatch
import Foundation
import TestSupport
import Testing

@Suite("The end of an image cache", .timeLimit(.minutes(2)))
struct ImageEndTests {
    private let a = url("a.png"), b = url("b.png")
    private let picture = Image.sample()

    @Test("shutdown ends open calls as cancelled and waits for a picture that is being written")
    func waitsForWrite() async throws {
        let folder = TemporaryFolder()
        let held = HeldSerializer()
        let test = TestImageCache(folder: folder) { $0.options.serializer = held.serializer }
        try test.script(a, picture)
        let request = ImageRequest(a).inverted.with(\.processingQueue, .dispatch(DispatchQueue(label: "own")))
            .with(\.waitsForDiskWrite, true)
        let task = test.cache.getImage(request)
        try await held.entered.wait { $0 == 1 }
        let end = Task { [cache = test.cache] in await cache.shutdown() }
        #expect(await task.error == .cancelled)
        held.stayOpen()
        await end.value
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasProcessedImage(for: request))
    }

    @Test("a shared data cache outlives one of two image caches; shutting down twice at once is fine")
    func sharedOriginals() async throws {
        let data = TestCache(folder: TemporaryFolder())
        data.transport.script(a, [.body(try picture.png)])
        let one = TestImageCache { $0.originals = data.cache }, two = TestImageCache { $0.originals = data.cache }
        _ = try await one.cache.getImage(ImageRequest(a).inverted).value
        let open = one.cache.getImage(b)
        let cache = one.cache
        async let first: Void = cache.shutdown()
        async let second: Void = cache.shutdown()
        _ = await (first, second)
        #expect(await open.error == .cancelled)
        #expect(await one.error(a) == .shutDown)
        #expect(try await two.pixels(a) == picture.pixels)
        await data.cache.idle()
        #expect(data.cache.diskCount == 2)
    }

    @Test("letting go of the last reference ends the cache: open calls are cancelled, and the folder is complete")
    func released() async throws {
        let folder = TemporaryFolder()
        let (image, open) = try await TestImageCache.released(folder) { test in
            try test.script(a, picture)
            let image = try await test.cache.getImage(a).value
            _ = try await test.cache.getImage(ImageRequest(a).inverted).value
            return (image, [test.cache.getImage(url("open")), test.cache.slowGetImage(url("later"))])
        }
        for task in open { #expect(await task.error == .cancelled) }
        let again = TestImageCache(folder: folder)
        #expect(again.cache.hasImage(for: a) && again.cache.hasProcessedImage(for: ImageRequest(a).inverted))
        #expect(image.pixels == picture.pixels)
    }

    @Test("a task that is kept, also one with previews, keeps no cache alive", arguments: [false, true])
    func keptTask(isOnDisk: Bool) async throws {
        let tasks = try await TestImageCache.released(isOnDisk ? TemporaryFolder() : nil) { test in
            test.transport.script(a, [.body(ProgressivePhoto.file)])
            let request = ImageRequest(a).with(\.showsPreviews, true)
            var tasks: [ImageTask] = []
            for isFirst in [true, false] {
                tasks.append(test.cache.getImage(request))
                _ = try await tasks.last?.value
                if isFirst { await test.forgetMemory() }
            }
            return tasks
        }
        #expect(tasks.allSatisfy { $0.state == .finished })
    }
}
