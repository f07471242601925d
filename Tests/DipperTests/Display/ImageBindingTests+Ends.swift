import DipperTesting
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Dipper

extension ImageBindingTests {
    @Test("short of memory, a display that nobody sees lets go of its picture, and gets it back from where it is kept")
    func pressure() async throws {
        let pressure = ManualMemoryPressure(), folder = TemporaryFolder()
        let test = TestImageCache(folder: folder) { $0.data.memoryPressure = pressure }
        test.transport.script(a, [.body(try picture.png)])
        let shown = TestDisplay(test.cache)
        shown.set(ImageRequest(a).with(\.waitsForDiskWrite, true))
        #expect(await settle { shown.ends.value.count == 1 })
        shown.perform { $0.didDisappear() }
        #expect(shown.told.last == "image \(picture.size)")
        pressure.level = .severe
        #expect(await settle { shown.told.last == "placeholder 000000ff" })
        #expect(test.cache.memory.totalCost == 0)
        pressure.level = .normal
        shown.perform { $0.willAppear() }
        #expect(await settle { shown.told.last == "image \(picture.size)" })
        #expect(test.transport.transfers.count == 1 && shown.ends.value.count == 1)
        // What is on screen stays.
        pressure.level = .severe
        shown.perform { _ in }
        #expect(shown.told.last == "image \(picture.size)")
        await test.cache.shutdown()
    }

    @Test("short of memory, nobody holds the pixels of what nobody sees")
    func pixelsGo() async throws {
        final class Watched: Sendable {
            private let pixels = Mutex<Weak>(Weak())
            private struct Weak { weak var storage: PixelStorage? }
            func watch(_ storage: PixelStorage) { pixels.withLock { $0.storage = storage } }
            var isGone: Bool { pixels.withLock { $0.storage == nil } }
        }
        let pressure = ManualMemoryPressure(), watched = Watched()
        let test = TestImageCache { $0.data.memoryPressure = pressure }
        test.transport.script(a, [.body(try picture.png)])
        let shown = TestDisplay(test.cache)
        shown.display.onShow { content in
            if case .image(let image) = content { watched.watch(image.storage) }
        }
        shown.set(ImageRequest(a))
        #expect(await settle { shown.ends.value.count == 1 })
        #expect(!watched.isGone)
        shown.display.forget()
        shown.perform { $0.didDisappear() }
        pressure.level = .severe
        #expect(await settle { watched.isGone })
        await test.cache.shutdown()
    }

    @Test("an answer that comes while another picture is being set is not taken for that picture's")
    func lateAnswer() async throws {
        let test = TestImageCache()
        let display = RecordingDisplay(), ends = Box<[String]>([])
        let binding = ImageBinding(display, cache: test.cache, queue: .inPlace)
        let (old, new, transport) = (a, b, test.transport)
        display.onShow { content in
            guard case .placeholder(.color(.white)) = content else { return }
            // The new call is made when the display has returned; the old one ends before.
            binding.setImage(new, placeholder: .color(.black)) { result in
                if case .failure(let error) = result { ends.update { $0.append(error.shortDescription) } }
            }
            transport.transfers(of: old).first?.finish(with: Data(), status: 404)
        }
        binding.setImage(old, placeholder: .color(.white))
        #expect(ends.value.isEmpty)
        #expect(display.descriptions == ["placeholder ffffffff", "activity", "placeholder 000000ff"])
        transport.transfers(of: new).first?.finish(with: try small.png)
        #expect(await settle { display.descriptions.last == "image \(small.size)" })
        await test.cache.shutdown()
    }

    @Test("a display that cancels as it is shown something is left in order")
    func reentrantEnds() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache)
        let binding = shown.binding
        shown.display.onShow { content in
            if case .placeholder = content { binding.cancel() }
        }
        shown.set(ImageRequest(a))
        #expect(shown.told.last == "no activity" && shown.ends.value == ["cancelled"])
        await test.cache.shutdown()
    }

    @Test("a task that waits for a display and is cancelled gives the picture up, also off screen")
    func cancelledWait() async throws {
        let test = TestImageCache()
        let shown = TestDisplay(test.cache, options: DisplayOptions().with(\.loadsOffScreen, false))
        shown.perform { $0.didDisappear() }
        let binding = shown.binding, address = a
        let work = Task { () -> DipperError? in
            do throws(DipperError) {
                _ = try await binding.setImageAndWait(ImageRequest(address))
                return nil
            } catch { return error }
        }
        #expect(await settle { shown.told.last == "nothing" })
        work.cancel()
        #expect(await work.value == .cancelled)
        await test.cache.shutdown()
    }

    @Test("letting go of the binding ends what it waits for; letting go of the display, too")
    func release() async throws {
        let test = TestImageCache()
        let ends = Box<[String]>([])
        var display: RecordingDisplay? = RecordingDisplay()
        var binding: ImageBinding? = ImageBinding(try #require(display), cache: test.cache, queue: .inPlace)
        binding?.setImage(a) { result in
            if case .failure(let error) = result { ends.update { $0.append(error.shortDescription) } }
        }
        let transfer = try await test.transport.nextTransfer()
        binding = nil
        #expect(await settle { transfer.isCancelled && ends.value == ["cancelled"] })

        binding = ImageBinding(try #require(display), cache: test.cache, queue: .inPlace)
        binding?.setImage(b) { result in
            if case .failure(let error) = result { ends.update { $0.append(error.shortDescription) } }
        }
        display = nil
        (try await test.transport.nextTransfer()).finish(with: try picture.png)
        #expect(await settle { ends.value == ["cancelled", "cancelled"] })
        _ = binding
        await test.cache.shutdown()
    }

    @Test("setting and waiting from a task gives the picture, or says that another one was set")
    func asyncSet() async throws {
        let test = TestImageCache()
        test.transport.script(a, [.body(try picture.png)])
        let shown = TestDisplay(test.cache)
        let response = try await shown.binding.setImageAndWait(ImageRequest(a))
        #expect(response.image.size == picture.size && shown.told.last == "image \(picture.size)")
        let binding = shown.binding, address = b
        async let replaced: DipperError? = {
            do {
                _ = try await binding.setImageAndWait(ImageRequest(address))
                return nil
            } catch let error as DipperError { return error }
        }()
        _ = try await test.transport.nextTransfer()
        shown.set(nil)
        #expect(try await replaced == .replaced)
        await test.cache.shutdown()
    }
}
