import DipperData
import DipperTesting
import Foundation
import TestSupport
import Testing

@Suite("A program that blocks all of Swift's threads", .timeLimit(.minutes(2)))
struct BusyThreadsTests {
    @Test("gets its answers all the same: retries, looks at the disk and decoding need none of these threads")
    func blocked() async {
        await #expect(processExitsWith: .success) {
            let test = TestCache(folder: TemporaryFolder()) {
                $0.clock = ContinuousClock()
                $0.retryPolicy = .fixed(.milliseconds(20))
            }
            test.transport.script(url("a"), [.status(503), .body(Data("[1]".utf8))])
            let values = Box<[Int]>([])
            // The threads are let go when the value is there, or far too late.
            let tooLate = ContinuousClock.now + .seconds(60)
            await withTaskGroup { group in
                for _ in 0..<(4 * ProcessInfo.processInfo.activeProcessorCount) {
                    group.addTask {
                        while values.value.isEmpty, ContinuousClock.now < tooLate { usleep(1_000) }
                    }
                }
                test.cache.getValue([Int].self, from: url("a")).then { value in values.update { $0 = value } }
            }
            #expect(values.value == [1] && ContinuousClock.now < tooLate)
            await test.cache.shutdown()
        }
    }
}
