import TestSupport
import Testing

@testable import Dipper

@Suite("The timetable of an animation", .timeLimit(.minutes(2)))
struct AnimatedScheduleTests {
    /// A schedule, a decoder that can answer at once, and a log of the results.
    private struct Desk {
        var schedule: AnimationSchedule
        /// The durations of the frames, in milliseconds.
        let delays: [Int]
        var answers = true
        var log: [String] = []
        var next = 0
        var isWanted = false
        private var frames: [WeakStorage] = []
        var held: Int { frames.count { $0.storage != nil } }

        private struct WeakStorage {
            weak var storage: PixelStorage?
        }

        init(_ delays: [Int], buffer: Int = 2, passes: Int? = nil) {
            self.delays = delays
            schedule = AnimationSchedule(bufferCount: buffer, passes: passes)
        }

        mutating func take(_ actions: [AnimationSchedule.Action], at time: Int) {
            for action in actions { note(action) }
            if answers, isWanted { decode(at: time) }
        }

        mutating func decode(at time: Int) {
            isWanted = false
            let now = Duration.milliseconds(time)
            if next == delays.count {
                next = 0
                take(schedule.decoded(.passEnd, now), at: time)
            } else {
                let frame = nextFrame()
                take(schedule.decoded(.frame(frame), now), at: time)
            }
        }

        /// Makes a frame whose colour is its number.
        private mutating func nextFrame() -> AnimationSchedule.Frame {
            let image = Image.filled(with: Color(hex: UInt32(next)), 1, 1)
            frames.append(WeakStorage(storage: image.storage))
            defer { next += 1 }
            return .init(image: image, index: next, delay: .milliseconds(delays[next]))
        }

        mutating func start() { take(schedule.start(.zero), at: 0) }
        mutating func wake(at time: Int) { take(schedule.woken(.milliseconds(time)), at: time) }

        private mutating func note(_ action: AnimationSchedule.Action) {
            switch action {
            case .open(let count):
                (next, isWanted) = (count, false)
                log.append("open \(count)")
            case .decode:
                #expect(!isWanted)
                isWanted = true
            case .close:
                isWanted = false
                log.append("close")
            case .tell(.frame(let frame)):
                #expect(frame.index == Int(frame.image[0, 0].z))
                log.append("\(frame.index)")
            case .tell(.prepared): log.append("prepared")
            case .tell(.looped(let count)): log.append("loop \(count)")
            case .tell(.ended(nil)): log.append("finished")
            case .tell(.ended(let error?)): log.append(error.shortDescription)
            case .wake(let due): log.append("@\(Int(due / .milliseconds(1)))")
            }
        }

        mutating func news() -> [String] {
            defer { log = [] }
            return log
        }
    }

    @Test("what comes late from the decoder is shown as it comes, and the timetable stays")
    func starving() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        desk.answers = false
        for time in [100, 200] { desk.wake(at: time) }
        _ = desk.news()
        desk.wake(at: 300)
        #expect(desk.news() == [])
        desk.decode(at: 360)
        #expect(desk.news() == ["3"])
        desk.decode(at: 370)
        #expect(desk.news() == ["@400"])
    }

    @Test("the first frame of the next pass is there before the last one has ended")
    func seam() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        for time in [100, 200, 300] { desk.wake(at: time) }
        _ = desk.news()
        desk.answers = false
        desk.wake(at: 400)
        #expect(desk.news() == ["loop 1", "0", "@500"])
    }

    @Test("all frames are shown in each pass, and a file that has none fails")
    func passes() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        for time in 1...8 { desk.wake(at: time * 100) }
        #expect(desk.log.compactMap(Int.init) == [0, 1, 2, 3, 0, 1, 2, 3, 0])
        var empty = Desk([])
        empty.start()
        #expect(empty.log == ["open 0", "undecodable", "close"])
    }

    @Test("whatever happens, frames come in order, no more are held than allowed, and it ends at most once")
    func anything() {
        var random = SeededRandom(5)
        for round in 0..<200 {
            let count = Int.random(in: 2...9, using: &random)
            let buffer = Int.random(in: 1...5, using: &random)
            let delays = (0..<count).map { _ in Int.random(in: 1...200, using: &random) }
            var desk = Desk(delays, buffer: buffer, passes: round % 3 == 0 ? nil : round % 3)
            desk.answers = false
            var (time, last, ends) = (0, -1, 0)
            desk.start()
            for _ in 0..<120 {
                time += Int.random(in: 0...(Bool.random(using: &random) ? 20 : 300), using: &random)
                let now = Duration.milliseconds(time)
                switch Int.random(in: 0..<12, using: &random) {
                case 0: desk.take(desk.schedule.pause(now), at: time)
                case 1, 2: desk.take(desk.schedule.resume(now), at: time)
                case 3: desk.take(desk.schedule.releaseBuffer(now), at: time)
                case 4, 5, 6, 7: if desk.isWanted { desk.decode(at: time) }
                default: desk.wake(at: time)
                }
                #expect(desk.held <= buffer)
                for item in desk.news() {
                    if item.hasPrefix("loop") { last = -1 }
                    if item == "finished" { ends += 1 }
                    guard let index = Int(item) else { continue }
                    #expect(index > last)
                    last = index
                }
            }
            #expect(ends <= 1)
        }
    }
}
