import Testing

@testable import Dipper

@Suite("The timetable of an animation", .timeLimit(.minutes(5)))
struct AnimatedScheduleTests {
    /// A schedule, a decoder that can answer at once, and a log of the results.
    private struct Desk {
        var schedule: AnimationSchedule<Int>
        /// The durations of the frames, in milliseconds.
        let delays: [Int]
        var answers = true
        var failsAt: Int?
        var log: [String] = []
        var next = 0
        var isWanted = false
        var held = 0

        init(_ delays: [Int], buffer: Int = 2, passes: Int? = nil, says: Int? = nil, preloaded: Bool = false) {
            self.delays = delays
            let frames = delays.enumerated().map { (picture: $0, delay: Duration.milliseconds($1)) }
            schedule = AnimationSchedule(
                bufferCount: buffer, passes: passes, frameCount: says ?? delays.count,
                preloaded: preloaded ? frames : nil)
        }

        mutating func take(_ actions: [AnimationSchedule<Int>.Action], at time: Int) {
            for action in actions { note(action) }
            held -= schedule.takeDropped().count
            if answers, isWanted { decode(at: time) }
        }

        /// Answers one wish for a frame.
        mutating func decode(at time: Int) {
            #expect(isWanted)
            isWanted = false
            let now = Duration.milliseconds(time)
            if failsAt == next {
                take(schedule.decoded(.failure(.undecodable), now), at: time)
            } else if next == delays.count {
                next = 0
                take(schedule.decoded(.passEnd, now), at: time)
            } else {
                next += 1
                held += 1
                take(schedule.decoded(.frame(next - 1, delay: .milliseconds(delays[next - 1])), now), at: time)
            }
        }

        mutating func start(at time: Int = 0) { take(schedule.start(.milliseconds(time)), at: time) }
        mutating func wake(at time: Int) { take(schedule.woken(.milliseconds(time)), at: time) }

        private mutating func note(_ action: AnimationSchedule<Int>.Action) {
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
            case .show(let frame):
                #expect(frame.index == frame.picture)
                held -= 1
                log.append("\(frame.picture)")
            case .prepared: log.append("prepared")
            case .looped(let count): log.append("loop \(count)")
            case .finished: log.append("finished")
            case .failed(let error): log.append(error.shortDescription)
            case .wake(let due): log.append("@\(Int(due / .milliseconds(1)))")
            }
        }

        /// Returns the events since the last call.
        mutating func news() -> [String] {
            defer { log = [] }
            return log
        }
    }

    @Test("frames are decoded ahead before the first one is shown, and not too many")
    func ahead() {
        var desk = Desk([100, 100, 100, 100], buffer: 3)
        desk.answers = false
        desk.start()
        #expect(desk.news() == ["open 0"])
        desk.decode(at: 1)
        desk.decode(at: 2)
        #expect(desk.news() == [])
        desk.decode(at: 5)
        #expect(desk.news() == ["prepared", "0", "@105"])
        desk.decode(at: 6)
        #expect(!desk.isWanted)
        desk.wake(at: 105)
        #expect(desk.news() == ["1", "@205"])
        #expect(desk.isWanted)
    }

    @Test("each frame is due when the ones before have had their time, however late they were shown")
    func timetable() {
        var desk = Desk([100, 50, 200, 100])
        desk.start(at: 1_000)
        #expect(desk.news() == ["open 0", "prepared", "0", "@1100"])
        desk.wake(at: 1_130)
        #expect(desk.news() == ["1", "@1150"])
        desk.wake(at: 1_150)
        #expect(desk.news() == ["2", "@1350"])
        desk.wake(at: 1_349)
        #expect(desk.news() == [])
    }

    @Test("of frames that are due together the newest is shown")
    func skipping() {
        var desk = Desk([100, 100, 100, 100, 100, 100], buffer: 4)
        desk.start()
        _ = desk.news()
        desk.wake(at: 350)
        #expect(desk.news() == ["3", "@400"])
        desk.wake(at: 450)
        #expect(desk.news() == ["4", "@500"])
    }

    @Test("what comes late from the decoder is shown as it comes, and the timetable stays")
    func starving() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        desk.answers = false
        desk.wake(at: 100)
        _ = desk.news()
        desk.wake(at: 200)
        #expect(desk.news() == ["2"])
        desk.wake(at: 300)
        #expect(desk.news() == [])
        desk.decode(at: 360)
        #expect(desk.news() == ["3"])
        desk.decode(at: 370)
        #expect(desk.news() == ["@400"])
    }

    @Test("after more than a second the timetable begins anew, where it was")
    func sleeping() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        _ = desk.news()
        desk.wake(at: 1_100)
        #expect(desk.news().last == "@1200")
        desk.wake(at: 90_000)
        #expect(desk.news().suffix(1) == ["@90100"])
    }

    @Test(
        "all frames are shown as often as wanted, and it ends when the last one has had its time",
        arguments: [(1, 2), (2, 2), (3, 1), (3, 5), (1, 9)])
    func passes(passes: Int, buffer: Int) {
        var desk = Desk([10, 20, 30], buffer: buffer, passes: passes)
        desk.start()
        var shown: [String] = []
        var time = 0
        for _ in 0..<passes * 3 {
            shown += desk.news()
            time += desk.delays[time % 60 == 0 ? 0 : time % 60 == 10 ? 1 : 2]
            desk.wake(at: time)
        }
        let end = desk.news()
        #expect(end == ["loop \(passes)", "finished", "close"])
        #expect(shown.compactMap(Int.init) == (0..<passes).flatMap { _ in [0, 1, 2] })
        #expect(time == passes * 60 && desk.schedule.phase == .finished)
        // Kept ones were shown again and again.
        #expect(buffer < 3 ? desk.held == 0 : desk.held <= 0)
        desk.wake(at: time + 100)
        #expect(desk.news() == [])
    }

    @Test("the first frame of the next pass is there before the last one has ended")
    func seam() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        for time in [100, 200, 300] { desk.wake(at: time) }
        _ = desk.news()
        #expect(desk.next == 1 || desk.next == 2)
        desk.answers = false
        desk.wake(at: 400)
        #expect(desk.news() == ["loop 1", "0", "@500"])
    }

    @Test("what fits into the buffer is decoded once")
    func keeping() {
        var desk = Desk([100, 100, 100], buffer: 3)
        desk.start()
        desk.answers = false
        for time in 1...7 { desk.wake(at: time * 100) }
        #expect(desk.log.compactMap(Int.init) == [0, 1, 2, 0, 1, 2, 0, 1])
        #expect(!desk.isWanted && desk.log.contains("loop 2"))
    }

    @Test("what is there already is not decoded at all")
    func preloaded() {
        var desk = Desk([100, 100, 100], buffer: 1, passes: 2, preloaded: true)
        desk.start()
        for time in 1...6 { desk.wake(at: time * 100) }
        #expect(desk.log.compactMap(Int.init) == [0, 1, 2, 0, 1, 2])
        #expect(desk.log.suffix(3) == ["loop 2", "finished", "close"] && !desk.log.contains("open 0"))
    }

    @Test("a file that has more frames than it says is shown whole")
    func moreThanAnnounced() {
        var desk = Desk([100, 100, 100, 100], says: 2)
        desk.start()
        for time in 1...8 { desk.wake(at: time * 100) }
        #expect(desk.log.compactMap(Int.init) == [0, 1, 2, 3, 0, 1, 2, 3, 0])
    }

    @Test("a single frame does not move: it ends, whatever is wanted", arguments: [nil, 1, 5])
    func single(passes: Int?) {
        var desk = Desk([100], passes: passes)
        desk.start()
        desk.wake(at: 100)
        #expect(desk.news() == ["open 0", "prepared", "0", "@100", "loop 1", "finished", "close"])
    }

    @Test("a pause stops the timetable and the decoder; then the frame has the rest of its time")
    func pausing() {
        var desk = Desk([100, 100, 100, 100])
        desk.start()
        _ = desk.news()
        #expect(desk.schedule.pause(.milliseconds(70)).isEmpty && desk.schedule.pause(.milliseconds(80)).isEmpty)
        desk.wake(at: 100)
        #expect(desk.news() == [])
        desk.take(desk.schedule.resume(.milliseconds(5_000)), at: 5_000)
        #expect(desk.news() == ["@5030"])
        desk.wake(at: 5_030)
        #expect(desk.news() == ["1", "@5130"])
        #expect(desk.schedule.resume(.milliseconds(5_040)).isEmpty)
    }

    @Test("what is started while it is paused waits; what was decoding comes into the buffer")
    func startingPaused() {
        var desk = Desk([100, 100, 100])
        _ = desk.schedule.pause(.zero)
        desk.start(at: 10)
        #expect(desk.news() == ["open 0"] && !desk.isWanted)
        desk.answers = false
        desk.take(desk.schedule.resume(.milliseconds(20)), at: 20)
        _ = desk.schedule.pause(.milliseconds(21))
        desk.decode(at: 30)
        #expect(!desk.isWanted && desk.held == 1)
        desk.answers = true
        desk.take(desk.schedule.resume(.milliseconds(40)), at: 40)
        #expect(desk.news() == ["prepared", "0", "@140"])
    }

    @Test("frames that are let go of come again, behind those that were shown")
    func releasing() {
        for buffer in [2, 4] {
            var desk = Desk([100, 100, 100, 100], buffer: buffer)
            desk.start()
            for time in [100, 200] { desk.wake(at: time) }
            _ = desk.schedule.pause(.milliseconds(250))
            _ = desk.news()
            desk.take(desk.schedule.releaseBuffer(.milliseconds(260)), at: 260)
            #expect(desk.news() == ["open 3"] && desk.held <= 0)
            desk.take(desk.schedule.resume(.milliseconds(300)), at: 300)
            for time in [350, 450, 550] { desk.wake(at: time) }
            #expect(desk.news() == ["@350", "3", "@450", "loop 1", "0", "@550", "1", "@650"])
        }
    }

    @Test("a broken frame ends it when the one before has had its time, and is told once", arguments: [1, 2, 3])
    func failing(frame: Int) {
        var desk = Desk([100, 100, 100, 100], buffer: 2)
        desk.failsAt = frame
        desk.start()
        for time in 1...8 { desk.wake(at: time * 100) }
        #expect(desk.log.compactMap(Int.init) == Array(0..<frame))
        #expect(desk.log.suffix(2) == ["undecodable", "close"])
        #expect(desk.log.count { $0 == "undecodable" } == 1 && desk.schedule.phase == .failed(.undecodable))
    }

    @Test("a first frame that is broken, or is not there, prepares for nothing")
    func nothing() {
        var broken = Desk([100, 100])
        broken.failsAt = 0
        broken.start()
        #expect(broken.log == ["open 0", "undecodable", "close"])
        var empty = Desk([], says: 5)
        empty.start()
        #expect(empty.log == ["open 0", "undecodable", "close"])
    }

    @Test("after a stop nothing comes, and it can be started again")
    func stopping() {
        var desk = Desk([100, 100, 100])
        desk.start()
        desk.wake(at: 100)
        _ = desk.news()
        desk.take(desk.schedule.stop(), at: 150)
        #expect(desk.news() == ["close"] && desk.held == 0)
        desk.wake(at: 200)
        #expect(desk.schedule.decoded(.frame(7, delay: .zero), .milliseconds(200)).isEmpty)
        desk.take(desk.schedule.stop(), at: 210)
        #expect(desk.news() == [])
        desk.start(at: 1_000)
        #expect(desk.news() == ["open 0", "prepared", "0", "@1100"])
        desk.start(at: 1_010)
        #expect(desk.news() == [])
    }

    @Test("whatever happens, frames come in order, no more are held than allowed, and it ends at most once")
    func anything() {
        var random = SteadyNumbers(5)
        for round in 0..<300 {
            let count = Int.random(in: 2...9, using: &random)
            let buffer = Int.random(in: 1...5, using: &random)
            let delays = (0..<count).map { _ in Int.random(in: 1...200, using: &random) }
            var desk = Desk(delays, buffer: buffer, passes: round % 3 == 0 ? nil : round % 3)
            desk.answers = false
            var time = 0
            var last = -1
            var ends = 0
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
                // Frames that fit are shown from those that are kept.
                if count > buffer { #expect(desk.held <= buffer) }
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

@Suite("How long a frame is shown", .timeLimit(.minutes(5)))
struct FrameDelayTests {
    @Test(
        "what is 10 ms or less counts as 100 ms, as in browsers",
        arguments: [(-5, 100), (0, 100), (10, 100), (11, 11), (20, 20), (100, 100), (60_000, 60_000)])
    func browsers(said: Int, shown: Int) {
        #expect(FrameDelays.browsers.delay(of: .milliseconds(said)) == .milliseconds(shown))
    }

    @Test("or it is taken as it is, within reason")
    func least() {
        #expect(FrameDelays.atLeast(.milliseconds(20)).delay(of: .milliseconds(10)) == .milliseconds(20))
        #expect(FrameDelays.atLeast(.zero).delay(of: .milliseconds(10)) == .milliseconds(10))
        #expect(FrameDelays.atLeast(.zero).delay(of: .zero) == .milliseconds(1))
        #expect(FrameDelays.browsers.delay(of: .seconds(Int64.max)) == .seconds(1_000_000))
    }
}
