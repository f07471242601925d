import DipperTesting
import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Timers", .timeLimit(.minutes(5)))
struct TimerQueueTests {
    /// A clock whose first sleeper wakes early, when the test says so. It counts its sleepers, and calls a closure once
    /// before it is read.
    private struct EarlyClock: Clock {
        let clock = ManualClock()
        let early = Gate()
        let begun = Box(0), ended = Box(0)
        let onRead = Box<(@Sendable () -> Void)?>(nil)

        var minimumResolution: Duration { clock.minimumResolution }

        var now: ManualClock.Instant {
            let body = onRead.update { exchange(&$0, with: nil) }
            body?()
            return clock.now
        }

        func sleep(until deadline: ManualClock.Instant, tolerance: Duration?) async throws {
            let number = begun.update { count in
                count += 1
                return count
            }
            defer { ended.update { $0 += 1 } }
            if number == 1 { await early.pass() } else { try await clock.sleep(until: deadline, tolerance: tolerance) }
        }
    }

    @Test("a timer that is scheduled while the sleeper wakes leaves one sleeper")
    func oneSleeper() async {
        let clock = EarlyClock()
        let timers = TimerQueue(TimeSource(clock))
        let fired = Box<[Int]>([])
        timers.schedule(at: .seconds(10)) { fired.update { $0.append(10) } }
        await clock.early.waitForArrival()
        clock.onRead.update { body in
            body = { timers.schedule(at: .seconds(5)) { fired.update { $0.append(5) } } }
        }
        clock.early.open()
        #expect(await settle { clock.begun.value == 3 && clock.ended.value == 2 })
        for _ in 0..<2 {
            #expect(await settle { clock.clock.sleeperCount == 1 })
            clock.clock.advance(by: .seconds(5))
        }
        #expect(await settle { fired.value == [5, 10] })
        timers.end()
    }

    @Test(
        "timers fire in their order, and work on separate threads runs, while a program blocks all of Swift's threads")
    func busyThreads() async {
        await #expect(processExitsWith: .success) {
            let isDone = Box(false), hasRun = Box(false), fired = Box<[Int]>([])
            let timers = TimerQueue(TimeSource(ContinuousClock()))
            defer { timers.end() }
            // More than there are threads. They are let go when the timers have fired, or far too late.
            let tooLate = ContinuousClock.now + .seconds(60)
            await withTaskGroup { group in
                for _ in 0..<(4 * ProcessInfo.processInfo.activeProcessorCount) {
                    group.addTask {
                        while !isDone.value, ContinuousClock.now < tooLate {
                            usleep(1_000)
                        }
                    }
                }
                timers.schedule(after: .milliseconds(40)) {
                    fired.update { $0.append(2) }
                    SeparateThread().run {
                        hasRun.update { $0 = true }
                        isDone.update { $0 = true }
                    }
                }
                timers.schedule(after: .milliseconds(20)) { fired.update { $0.append(1) } }
            }
            #expect(fired.value == [1, 2] && hasRun.value)
            #expect(ContinuousClock.now < tooLate)
        }
    }

    @Test("however many timers fire at a time, their work runs one after the other: each queue needs one thread")
    func oneThread() async {
        let timers = TimerQueue(TimeSource(ContinuousClock()))
        defer { timers.end() }
        let running = Box(0), most = Box(0), fired = Box(0)
        for number in 0..<40 {
            timers.schedule(after: .milliseconds(number)) {
                let count = running.update { count in
                    count += 1
                    return count
                }
                most.update { $0 = max($0, count) }
                // Long enough for the next timers to become due meanwhile.
                usleep(3_000)
                running.update { $0 -= 1 }
                fired.update { $0 += 1 }
            }
        }
        #expect(await settle { fired.value == 40 })
        #expect(most.value == 1)
    }

    @Test("a timer that is cancelled does not fire, and those after it do")
    func cancelled() async throws {
        let clock = ManualClock()
        let timers = TimerQueue(TimeSource(clock))
        let fired = Box<[String]>([])
        let first = timers.schedule(after: .seconds(1)) { fired.update { $0.append("first") } }
        timers.schedule(after: .seconds(2)) { fired.update { $0.append("second") } }
        timers.cancel(first)
        // The sleeper reads the clock before it sleeps.
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(3))
        #expect(await settle { !fired.value.isEmpty })
        #expect(fired.value == ["second"] && timers.count == 0)
        timers.schedule(after: .seconds(1)) { fired.update { $0.append("never") } }
        timers.end()
        clock.advance(by: .seconds(1))
        #expect(await stays { fired.value == ["second"] })
    }
}
