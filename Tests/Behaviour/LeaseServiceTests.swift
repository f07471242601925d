import TestSupport
import Testing

@Suite("Leases of the program's own service", .timeLimit(.minutes(2)))
struct LeaseServiceTests {
    private let a = url("a")
    private let fresh: HTTPHeaders = ["Cache-Control": "max-age=500"]

    private func cache(_ shelf: Shelf, _ service: FreeLeases) -> TestCache {
        TestCache(folder: TemporaryFolder()) {
            $0.tiers = [shelf]
            $0.leases.services = [service]
        }
    }

    @Test("others are told that an entry is kept when the tier has it, and not before")
    func kept() async throws {
        let (gate, service) = (Gate(), FreeLeases())
        let isOpen = Box(false)
        let test = cache(Shelf { isOpen.value ? .waits(gate) : .works }, service)
        let task = test.cache.getData(DataRequest(a).with(\.waitsForDiskWrite, true))
        let transfer = try await test.transport.nextTransfer()
        isOpen.update { $0 = true }
        transfer.finish(with: Data("here".utf8), headers: fresh)
        _ = try await task.value
        try await gate.waitForArrival()
        _ = test.cache.queueCounts
        #expect(service.ends.value == [])
        gate.open()
        try await service.ends.wait { $0 == [.kept] }
    }

    @Test("a lease that expires is renewed until the tier has the entry")
    func renewed() async throws {
        let (gate, service) = (Gate(), FreeLeases(lifetime: .seconds(3)))
        let isOpen = Box(false)
        let test = cache(Shelf { isOpen.value ? .waits(gate) : .works }, service)
        let task = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        isOpen.update { $0 = true }
        transfer.finish(with: Data("here".utf8), headers: fresh)
        _ = try await task.value
        try await gate.waitForArrival()
        for count in 1...3 {
            try await test.clock.waitForSleepers(1, dueWithin: .seconds(1))
            test.clock.advance(by: .seconds(1))
            try await service.tells.wait { $0 == count }
        }
        #expect(service.ends.value == [])
        gate.open()
        try await service.ends.wait { $0 == [.kept] }
        #expect(service.tells.value == 3)
    }

    @Test("others are told to ask for themselves if the tier does not get the entry", arguments: 0..<4)
    func notStored(reason: Int) async throws {
        let service = FreeLeases()
        let isBroken = Box(false)
        let test = cache(Shelf { isBroken.value ? .fails : .works }, service)
        let task = test.cache.getData(a)
        let transfer = try await test.transport.nextTransfer()
        if reason == 0 { isBroken.update { $0 = true } }
        let size = reason == 1 ? 9 << 20 : 10
        let fields =
            reason == 2 ? fresh.adding("Set-Cookie", "a=1") : reason == 3 ? ["Cache-Control": "no-store"] : fresh
        transfer.finish(with: Data(count: size), headers: fields)
        _ = try await task.value
        try await service.ends.wait { $0 == [.unshared] }
    }

    @Test("a picture is told to be kept when the tier has it")
    func pictures() async throws {
        let (service, shelf) = (FreeLeases(), Shelf())
        let test = TestImageCache(folder: TemporaryFolder()) {
            $0.data.tiers = [shelf]
            $0.data.leases.services = [service]
        }
        let picture = TransferResponse(headers: fresh, body: try Image.sample().png)
        test.transport.script(a, [.response(picture)])
        _ = try await test.cache.getImage(ImageRequest(a).processed(by: Inverting())).value
        try await service.ends.wait { $0 == [.kept, .kept] }
        #expect(shelf.records.value.count == 2)
    }

    @Test("for what the tiers do not get, and others could not find, their services are not asked")
    func personal() async throws {
        let service = FreeLeases()
        let test = cache(Shelf(), service)
        test.transport.script(a, [.text("mine", fresh)])
        let request = DataRequest(a).with(\.headers, ["Authorization": "Basic eA=="])
        #expect(try await test.ask(request) == "mine from network")
        await test.cache.shutdown()
        #expect(service.claims.value == 0 && service.ends.value == [])
    }
}

/// A service whose places are always free.
private final class FreeLeases: LeaseService {
    let name = "free"
    let placesExpire = false
    let claims = Box(0)
    let tells = Box(0)
    let ends = Box<[LeaseNews]>([])
    private let lifetime: Duration?

    init(lifetime: Duration? = nil) { self.lifetime = lifetime }

    private final class Claim: LeaseClaim {
        let report: @Sendable (LeaseEvent) -> Void
        let service: FreeLeases

        init(_ report: @escaping @Sendable (LeaseEvent) -> Void, _ service: FreeLeases) {
            (self.report, self.service) = (report, service)
        }

        func take(_ place: LeasePlace, since lookedUp: Date) {
            report(.taken(place, mayBeKept: false, lifetime: service.lifetime))
        }
        func watch(in queue: FetchQueue) {}
        func tell(_ news: LeaseNews) { service.tells.update { $0 += 1 } }
        func end(_ outcome: LeaseNews) { service.ends.update { $0.append(outcome) } }
    }

    func claim(_ key: CacheKey, _ report: @escaping @Sendable (LeaseEvent) -> Void) -> any LeaseClaim {
        claims.update { $0 += 1 }
        return Claim(report, self)
    }
}
