import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

@Suite("Equal pictures are made once", .timeLimit(.minutes(5)))
struct SharedMakingTests {
    private let picture = Image.sample()

    /// Returns a folder that contains a picture and the result of a request for it.
    private func filled(_ request: ImageRequest) async throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        let cache = TestImageCache(folder: folder)
        cache.transport.script(url("a"), [.body(try picture.png)])
        _ = try await cache.cache.getImage(request).value
        await cache.cache.shutdown()
        return folder
    }

    /// Requests a picture from several threads at once, from a cache with an empty memory tier.
    /// - Returns: the number of decodes that began, and the number of different pixel buffers that the calls got.
    private func ask(_ request: ImageRequest, _ folder: TemporaryFolder) async throws -> (decodes: Int, pictures: Int) {
        let test = TestImageCache(folder: folder)
        let tasks = await withCheckedContinuation { (done: CheckedContinuation<[ImageTask], Never>) in
            let tasks = Mutex<[ImageTask]>([])
            Thread.detachNewThread {
                DispatchQueue.concurrentPerform(iterations: 8) { _ in
                    for _ in 0..<25 {
                        let task = test.cache.getImage(request)
                        tasks.withLock { $0.append(task) }
                    }
                }
                done.resume(returning: tasks.withLock { $0 })
            }
        }
        var pictures: Set<ObjectIdentifier> = []
        var images: [Image] = []
        for task in tasks { images.append(try await task.value) }
        for image in images { pictures.insert(ObjectIdentifier(image.storage)) }
        let decodes = test.decoder.decodes
        await test.cache.shutdown()
        return (decodes, pictures.count)
    }

    @Test("a processed picture on disk is decoded once, whichever threads ask for it at whatever moment")
    func derived() async throws {
        let request = ImageRequest(url("a")).processed(by: Inverting())
        let folder = try await filled(request)
        for round in 0..<60 {
            let (decodes, pictures) = try await ask(request, folder)
            #expect(decodes == 1 && pictures == 1, "round \(round): \(decodes) decodes, \(pictures) pictures")
        }
    }

    @Test("a picture on disk is decoded once, whichever threads ask for it at whatever moment")
    func plain() async throws {
        let request = ImageRequest(url("a"))
        let folder = try await filled(request)
        for round in 0..<60 {
            let (decodes, pictures) = try await ask(request, folder)
            #expect(decodes == 1 && pictures == 1, "round \(round): \(decodes) decodes, \(pictures) pictures")
        }
    }

    @Test("who asks while a picture on disk is being decoded shares the decode, though it is read again")
    func readTwice() async throws {
        let folder = try await filled(ImageRequest(url("a")))
        let test = TestImageCache(folder: folder, decoder: CountingDecoder(isHeld: true))
        // Two fetches of the same bytes, by the same file, that know nothing of each other.
        let first = test.cache.getImage(url("a"))
        #expect(await settle { test.decoder.decodes == 1 })
        let again = test.cache.slowGetImage(
            ImageRequest(url("a")).with(\.headers, ["Cache-Control": "max-stale"])
                .with(\.key, CacheKey(url("a"))))
        #expect(await settle { again.state == .decoding })
        test.decoder.release()
        test.decoder.release()
        let (one, two) = (try await first.value, try await again.value)
        #expect(one.storage === two.storage)
        #expect(test.decoder.decodes == 1)
        await test.cache.shutdown()
    }

    @Test("two requests that process one picture in different ways share its decode")
    func differentProcessors() async throws {
        let test = TestImageCache()
        let request = ImageRequest(url("a"))
        let tasks = [request.processed(by: Inverting()), request.processed(by: .circle)].map { test.cache.getImage($0) }
        try await test.transport.nextTransfer().finish(with: try Image.sample().png)
        for task in tasks { _ = try await task.value }
        #expect(test.decoder.decodes == 1 && test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }
}
