import Dipper
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

    @Test("moderate: half, severe: none, afterwards all of the limit, also after several, and one set meanwhile")
    func levels() async throws {
        let cache = makeTest().cache
        /// Adds pictures of 10,000 bytes each.
        func fill() throws {
            for number in 0..<30 {
                try cache.addImage(.sample(50, 50), bytes: Data("\(number)".utf8), for: url("\(number)"))
            }
        }
        let half = 180_001...200_000
        for _ in 0..<3 {
            try fill()
            #expect(cache.memoryCount == 30)
            #expect(cache.image(for: url("2")) != nil)
            pressure.level = .moderate
            #expect(cache.memoryPressure == .moderate && cache.data.memoryPressure == .moderate)
            #expect(half.contains(cache.memorySize))
            #expect(cache.hasImage(for: url("2")) && !cache.hasImage(for: url("1")), "what was used last stays")
            pressure.level = .normal
        }
        try fill()
        #expect(cache.memoryCount == 30)
        pressure.level = .severe
        #expect(cache.memoryCount == 0 && cache.data.memoryCount == 0)
        cache.memoryLimit = 200_000
        #expect(cache.memoryCount == 0)
        pressure.level = .normal
        try fill()
        #expect(half.contains(cache.memorySize))
    }

    @Test("while it is severe pictures are shown, and not kept in memory")
    func answers() async throws {
        pressure.level = .severe
        let test = makeTest(TemporaryFolder())
        try test.script(url("a"), .sample())
        #expect(try await test.pixels(url("a")) == Image.sample().pixels)
        #expect(test.cache.memoryCount == 0)
        await test.cache.idle()
        #expect(try await test.source(url("a")) == .disk)
        pressure.level = .normal
        _ = try await test.pixels(url("a"))
        #expect(try await test.source(url("a")) == .memory)
        #expect(test.transport.transfers.count == 1)
    }
}
