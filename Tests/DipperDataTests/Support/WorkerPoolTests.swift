import DipperTesting
import TestSupport
import Testing

@testable import DipperData

@Suite("A pool of threads", .timeLimit(.minutes(5)))
struct WorkerPoolTests {
    @Test("every call of shutdown returns after the threads have ended")
    func shutdownTwice() async {
        let pool = WorkerPool(name: "test", threads: 1)
        let door = Door()
        pool.run { door.pass() }
        let ended = Box(0)
        let calls = (0..<2).map { _ in
            Task {
                await pool.shutdown()
                ended.update { $0 += 1 }
            }
        }
        #expect(await stays { ended.value == 0 })
        door.open()
        for call in calls { await call.value }
    }
}
