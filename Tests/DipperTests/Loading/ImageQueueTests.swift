@testable import Dipper
import Dispatch
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Queues, for pictures", .timeLimit(.minutes(5)))
struct ImageQueueTests {
    private let a = url("a.png")
    private let b = url("b.png")
    private let picture = Image.sample()

    @Test("a prefetch waits for urgent work, and is promoted by an urgent call for the same picture")
    func promotion() async throws {
        let test = TestImageCache()
        let urgent = test.cache.getImage(a)
        let first = try await test.transport.nextTransfer()
        let prefetch = test.cache.slowGetImage(b)
        #expect(prefetch.state == .waiting && test.transport.transfers.count == 1)
        let wanted = test.cache.getImage(b)
        let second = try await test.transport.nextTransfer()
        #expect(second.request.url == b && second.queue == .fast)
        for transfer in [first, second] { transfer.finish(with: try picture.png) }
        for task in [urgent, prefetch, wanted] { #expect(try await task.value.pixels == picture.pixels) }
        #expect(test.transport.transfers.count == 2)
        await test.cache.shutdown()
    }

    @Test("moveTaskToSlowQueue demotes in place: the transfer goes on, no hook is lost")
    func demotion() async throws {
        let test = TestImageCache()
        let told = Box<[String]>([])
        let task = test.cache.getImage(ImageRequest(a).processed(by: Inverting()))
            .onFail { error, _ in told.update { $0.append("\(error)") } }
            .then { _ in told.update { $0.append("there") } }
        let transfer = try await test.transport.nextTransfer()
        test.cache.moveTaskToSlowQueue(a)
        #expect(await settle { task.queue == .slow && transfer.queue == .slow && !transfer.isCancelled })
        // Urgent work holds the demoted one back.
        let urgent = test.cache.getImage(b)
        let other = try await test.transport.nextTransfer()
        #expect(await settle { transfer.isThrottled && task.state == .paused })
        other.finish(with: try picture.png)
        _ = try await urgent.value
        #expect(await settle { !transfer.isThrottled })
        transfer.finish(with: try picture.png)
        _ = try await task.value
        #expect(await settle { told.value == ["there"] })
        #expect(test.transport.transfers.count == 2)
        // Without effect where there is nothing.
        test.cache.moveTaskToSlowQueue(url("nothing"))
        await test.cache.shutdown()
    }

    @Test("no prefetch starts between the look for a processed picture and the fetch of its original")
    func reservation() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        test.cache.data.slowQueue.isSuspended = true
        let prefetches = (0..<5).map { test.cache.slowGetImage(url("later-\($0)")) }
        // What was asked for first would start in any gap.
        let tasks = (0..<8).map { test.cache.getImage(ImageRequest(url("now-\($0)")).processed(by: Inverting())) }
        test.cache.data.slowQueue.isSuspended = false
        var seen: [ScriptedTransfer] = []
        while seen.count < 8 { seen.append(try await test.transport.nextTransfer()) }
        #expect(seen.allSatisfy { $0.request.url.path.hasPrefix("/now") })
        for transfer in seen { transfer.finish(with: try picture.png) }
        for task in tasks { _ = try await task.value }
        let next = try await test.transport.nextTransfer()
        #expect(next.request.url.path.hasPrefix("/later"))
        test.cache.cancelAll()
        for task in prefetches { #expect(await task.error == .cancelled) }
        await test.cache.shutdown()
    }

    @Test("a demoted call gives up its reservation")
    func demotedReservation() async throws {
        let test = TestImageCache(folder: TemporaryFolder())
        let request = ImageRequest(a).processed(by: Inverting())
        for _ in 0..<50 {
            let task = test.cache.getImage(request)
            test.cache.moveTaskToSlowQueue(request)
            task.cancel()
            #expect(await task.error == .cancelled)
        }
        test.transport.script(b, [.body(try picture.png)])
        _ = try await test.cache.slowGetImage(b).value
        await test.cache.shutdown()
    }

    @Test("cancelling one task leaves the others; cancelling the last stops transfer and decode")
    func cancel() async throws {
        let test = TestImageCache(decoder: CountingDecoder(isHeld: true))
        let one = test.cache.getImage(a), two = test.cache.getImage(a)
        let transfer = try await test.transport.nextTransfer()
        one.cancel()
        #expect(await one.error == .cancelled)
        #expect(!transfer.isCancelled)
        two.cancel()
        #expect(await two.error == .cancelled)
        #expect(await settle { transfer.isCancelled })

        // While decoding: what was decoded for nobody is not kept.
        test.transport.script(b, [.body(try picture.png)])
        let three = test.cache.getImage(b)
        #expect(await settle { test.decoder.decodes == 1 })
        three.cancel()
        #expect(await three.error == .cancelled)
        test.decoder.release()
        test.decoder.release()
        let four = test.cache.getImage(b)
        #expect(try await four.value.pixels == picture.pixels)
        await test.cache.shutdown()
    }

    @Test("awaiting in a Swift task that is cancelled cancels the call")
    func swiftTask() async throws {
        let test = TestImageCache()
        let (cache, address) = (test.cache, a)
        let work = Task { try await cache.getImage(address).value }
        let transfer = try await test.transport.nextTransfer()
        work.cancel()
        let error = await #expect(throws: DipperError.self) { try await work.value }
        #expect(await settle { error == .cancelled && transfer.isCancelled })
        await test.cache.shutdown()
    }

    /// Records the order in which pictures are made.
    private struct Noting: ImageProcessor {
        let name: String
        let order: Box<[String]>
        var identifier: String { name }
        func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            order.update { $0.append(name) }
            return image
        }
    }

    @Test(
        "of pictures of the same priority the first or the last one is decoded first, as the queue says",
        arguments: [
            (QueueConfiguration.Order.fifo, ["held", "a", "b", "c"]), (.lifo, ["held", "c", "b", "a"]),
        ], [FetchQueue.fast, .slow])
    func queueOrder(_ wanted: (order: QueueConfiguration.Order, names: [String]), queue: FetchQueue) async throws {
        let order = Box<[String]>([])
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder) {
            $0.decodingThreads = 1
            $0.data.slowQueue.order = wanted.order
        }
        // The order can be changed at any time.
        test.cache.data.fastQueue.order = wanted.order
        var tasks: [ImageTask] = []
        for name in ["held", "a", "b", "c"] {
            let request = ImageRequest(MemoryProvider(try picture.png, key: CacheKey(name)))
                .processed(by: Noting(name: name, order: order))
            let task = queue == .fast ? test.cache.getImage(request) : test.cache.slowGetImage(request)
            // A task counts as decoding a little before its work is in the queue.
            let waiting = tasks.count
            #expect(await settle { decoder.decodes == 1 && test.cache.objects.queue.count == waiting })
            #expect(task.state == .decoding)
            tasks.append(task)
        }
        for _ in tasks { decoder.release() }
        for task in tasks { _ = try await task.value }
        #expect(order.value == wanted.names)
        await test.cache.shutdown()
    }

    @Test("one thread is left to urgent work, however much other work there is")
    func urgentThread() async {
        let queue = MakingQueue(name: "test", threads: 3)
        let door = DispatchSemaphore(value: 0)
        let begun = Box(0), isDone = Box(false)
        for rank in [MakingQueue.Rank.slow, .background, .slow] {
            queue.add(.init(rank: rank, priority: .high)) {
                begun.update { $0 += 1 }
                door.wait()
            }
        }
        #expect(await settle { begun.value >= 2 })
        #expect(await stays { begun.value == 2 })
        queue.add(.init(rank: .urgent, priority: .low)) { isDone.update { $0 = true } }
        #expect(await settle { isDone.value })
        for _ in 0..<3 { door.signal() }
        await queue.shutdown()
        #expect(begun.value == 3)
    }

    @Test("urgent pictures are decoded before prefetched ones, and by priority")
    func decodeOrder() async throws {
        let order = Box<[String]>([])
        let decoder = CountingDecoder(isHeld: true)
        let test = TestImageCache(decoder: decoder) { $0.decodingThreads = 1 }
        func request(_ name: String, _ priority: Priority = .normal) -> ImageRequest {
            ImageRequest(MemoryProvider(try! picture.png, key: CacheKey(name)))
                .processed(by: Noting(name: name, order: order)).with(\.priority, priority)
        }
        let first = test.cache.getImage(request("first"))
        #expect(await settle { decoder.decodes == 1 })
        // The thread is busy; these wait for it, each in the queue before the next one comes.
        let slow = test.cache.slowGetImage(request("slow"))
        #expect(await settle { test.cache.objects.queue.count == 1 })
        let low = test.cache.getImage(request("low", .low))
        #expect(await settle { test.cache.objects.queue.count == 2 })
        let high = test.cache.getImage(request("high", .high))
        #expect(await settle { test.cache.objects.queue.count == 3 })
        let promoted = test.cache.slowGetImage(request("promoted"))
        #expect(await settle { test.cache.objects.queue.count == 4 })
        let joiner = test.cache.getImage(request("promoted"))
        for _ in 0..<5 { decoder.release() }
        for task in [first, slow, low, high, promoted, joiner] { _ = try await task.value }
        #expect(order.value == ["first", "high", "promoted", "low", "slow"])
        await test.cache.shutdown()
    }

    @Test("the queue of works keeps its order through any moves")
    func workOrder() throws {
        typealias Order = WorkOrder<Int>
        var random = SystemRandomNumberGenerator()
        for _ in 0..<50 {
            var order = Order()
            var model: [(id: Int, place: Order.Place, number: Int)] = []
            var number = 0
            func best(_ lowest: Order.Rank) -> Int? {
                model.filter { $0.place.rank <= lowest }.min {
                    ($0.place.rank.rawValue, -$0.place.priority.value, $0.place.isLIFO ? -$0.number : $0.number)
                        < ($1.place.rank.rawValue, -$1.place.priority.value, $1.place.isLIFO ? -$1.number : $1.number)
                }?.id
            }
            for _ in 0..<400 {
                let id = Int.random(in: 0..<30, using: &random)
                let place = Order.Place(
                    rank: [.urgent, .slow, .background].randomElement(using: &random) ?? .slow,
                    priority: [.low, .normal, .high].randomElement(using: &random) ?? .normal,
                    isLIFO: Bool.random(using: &random))
                switch Int.random(in: 0..<5, using: &random) {
                case 0, 1:
                    let present = model.firstIndex { $0.id == id }
                    order.insert(id, place)
                    if let present, model[present].place == place { break }
                    number += 1
                    if let present { model.remove(at: present) }
                    model.append((id, place, number))
                case 2:
                    let present = model.firstIndex { $0.id == id }
                    order.move(id, to: place)
                    guard let present, model[present].place != place else { break }
                    number += 1
                    model.remove(at: present)
                    model.append((id, place, number))
                case 3:
                    #expect(order.remove(id) == model.contains { $0.id == id })
                    model.removeAll { $0.id == id }
                default:
                    let lowest: Order.Rank = Bool.random() ? .background : .urgent
                    let expected = best(lowest)
                    #expect(order.take(upTo: lowest)?.id == expected)
                    model.removeAll { $0.id == expected }
                }
                #expect(order.count == model.count)
            }
        }
    }
}
