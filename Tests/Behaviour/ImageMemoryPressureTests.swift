import Dipper
import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("Under memory pressure a cache keeps fewer pictures in memory", .timeLimit(.minutes(2)))
struct ImageMemoryPressureTests {
    private let pressure = ManualMemoryPressure()

    private func makeTest(_ folder: TemporaryFolder? = nil) -> TestImageCache {
        TestImageCache(folder: folder) {
            $0.data.memoryPressure = pressure
            $0.memoryLimit = 400_000
        }
    }

    /// Adds pictures of 10,000 bytes each.
    private func fill(_ cache: ImageCache) throws {
        for number in 0..<30 {
            try cache.addImage(.sample(50, 50), bytes: Data("\(number)".utf8), for: url("\(number)"))
        }
    }

    @Test(
        "moderate: half, severe: none, afterwards all of the limit, also after several warnings, and one set meanwhile")
    func levels() async throws {
        let test = makeTest()
        try fill(test.cache)
        #expect(test.cache.memoryCount == 30)
        #expect(test.cache.image(for: url("2")) != nil)
        for _ in 0..<3 {
            pressure.level = .moderate
            #expect(test.cache.memoryPressure == .moderate && test.cache.data.memoryPressure == .moderate)
            #expect(test.cache.memorySize <= 200_000 && test.cache.memorySize > 180_000)
            #expect(
                test.cache.hasImage(for: url("2")) && !test.cache.hasImage(for: url("1")), "what was used last stays")
            pressure.level = .normal
            try fill(test.cache)
            #expect(test.cache.memoryCount == 30)
            #expect(test.cache.image(for: url("2")) != nil)
        }
        pressure.level = .severe
        #expect(test.cache.memoryCount == 0 && test.cache.data.memoryCount == 0)
        test.cache.setMemoryLimit(200_000)
        #expect(test.cache.memoryCount == 0)
        pressure.level = .normal
        try fill(test.cache)
        #expect(test.cache.memorySize <= 200_000 && test.cache.memorySize > 180_000)
        await test.cache.shutdown()
    }

    @Test("while it is severe pictures are shown, and not kept in memory")
    func answers() async throws {
        pressure.level = .severe
        let test = makeTest(TemporaryFolder())
        try test.script(url("a"), .sample())
        #expect(try await test.cache.getImage(url("a")).value.pixels == Image.sample().pixels)
        #expect(test.cache.memoryCount == 0)
        await test.cache.idle()
        #expect(try await test.cache.getImage(url("a")).response.source == .disk)
        pressure.level = .normal
        _ = try await test.cache.getImage(url("a")).value
        #expect(try await test.cache.getImage(url("a")).response.source == .memory)
        #expect(test.transport.transfers.count == 1)
        await test.cache.shutdown()
    }
}
