import TestSupport
import Testing

@testable import DipperData

@Suite("The rules of a lease", .timeLimit(.minutes(1)))
struct LeaseRulesTests {
    private typealias Step = (at: Double, event: LeaseRules.Event, action: LeaseRules.Action?)

    private func walk(
        _ steps: [Step], placesExpire: Bool = false, _ location: SourceLocation = #_sourceLocation
    ) -> LeaseRules {
        var rules = LeaseRules(patience: .seconds(5), longestWait: .seconds(30), placesExpire: placesExpire)
        for (number, step) in steps.enumerated() {
            let action = rules.handle(step.event, at: .seconds(step.at))
            #expect(action == step.action, "step \(number), \(step.event)", sourceLocation: location)
        }
        return rules
    }

    private func taken(_ place: LeasePlace = .first, isNews: Bool = false, for time: Duration? = nil)
        -> LeaseRules.Event
    {
        .reported(.taken(place, mayBeKept: isNews, lifetime: time))
    }
    private func told(_ news: LeaseNews, by place: LeasePlace = .first) -> LeaseRules.Event {
        .reported(.told(news, by: place))
    }
    private let turn = LeaseRules.Event.turn(mayWait: true)
    private let refused = LeaseRules.Event.reported(.refused(.first))

    @Test("who gets the place fetches; after another may have kept the entry, it is looked up first")
    func taking() {
        _ = walk([(0, turn, .take(.first)), (0, taken(), .fetch), (9, turn, .fetch)])
        _ = walk([(0, turn, .take(.first)), (0, taken(isNews: true), .look), (1, turn, .fetch)])
        _ = walk([(0, .turn(mayWait: false), .take(.first)), (0, taken(isNews: true), .fetch)])
        _ = walk([(0, turn, .take(.first)), (0, .reported(.unavailable), .fetch), (1, turn, .fetch)])
    }

    @Test("who is refused waits, unless a call insists on the network")
    func refusal() {
        let waits = walk([(0, turn, .take(.first)), (1, refused, .wait)])
        #expect(waits.stage == .waiting && waits.due == .seconds(6))
        _ = walk([(0, .turn(mayWait: false), .take(.first)), (0, refused, .fetch)])
        _ = walk([
            (0, turn, .take(.first)), (0, refused, .wait), (1, .turn(mayWait: false), .take(.first)),
            (1, refused, .fetch),
        ])
    }

    @Test("after the end of the holder the key is looked up, and nobody waits a second time for what is not there")
    func ends() {
        for (news, action) in [(LeaseNews.kept, LeaseRules.Action.use), (.unshared, .look)] {
            _ = walk([
                (0, turn, .take(.first)), (0, refused, .wait), (1, told(news), action), (1, turn, .take(.first)),
                (1, refused, .fetch),
            ])
        }
        for end in [told(.abandoned), .reported(.gone(.first))] {
            let rules = walk([
                (0, turn, .take(.first)), (0, refused, .wait), (1, end, .look), (2, turn, .take(.first)),
                (2, refused, .wait),
            ])
            #expect(rules.due == .seconds(7), "a new holder has its own time")
        }
        _ = walk([
            (0, turn, .take(.first)), (0, refused, .wait), (1, told(.failed(.status(503))), .fail(.status(503))),
            (4, turn, .take(.first)), (4, refused, .wait),
        ])
    }

    @Test("bytes, and the back-off of a holder, give it more time; that it is alive does not")
    func patience() {
        let begin: [Step] = [(0, turn, .take(.first)), (0, refused, .wait)]
        #expect(walk(begin + [(4, told(.moving), nil)]).due == .seconds(9))
        #expect(walk(begin + [(4, told(.still), nil)]).due == .seconds(5))
        #expect(walk(begin + [(4, told(.pausing(.seconds(20))), nil)]).due == .seconds(29))
        #expect(walk(begin + [(4, told(.pausing(.seconds(100))), nil)]).due == .seconds(30), "a long one counts")
        let flowing = (1...14).map { number -> Step in (Double(number * 2), told(.moving), nil) }
        #expect(walk(begin + flowing).due == .seconds(30), "the longest wait")
        _ = walk(begin + [(4, .time, nil), (5, .time, .take(.first)), (5, refused, .take(.second))])
    }

    @Test("one more may fetch beside a slow holder, and no third")
    func second() {
        let late: [Step] = [
            (0, turn, .take(.first)), (0, refused, .wait), (5, .time, .take(.first)), (5, refused, .take(.second)),
        ]
        _ = walk(late + [(5, taken(.second, isNews: true), .look), (5, turn, .fetch)])
        let third = late + [(5, .reported(.refused(.second)), .wait)]
        #expect(walk(third).due == .seconds(10))
        let again: [Step] = [(10, .time, .take(.first)), (10, refused, .take(.second))]
        _ = walk(third + [(9, told(.still, by: .second), nil)] + again + [(10, .reported(.refused(.second)), .wait)])
        _ = walk(third + [(7, told(.kept, by: .second), .use)])
        _ = walk(
            third + [(7, told(.abandoned, by: .second), .look), (7, turn, .take(.first)), (7, refused, .take(.second))])
        // Both are stopped, and at no server.
        _ = walk(third + again + [(10, .reported(.refused(.second)), .fetch)])
        _ = walk(third + again + [(10, .reported(.refused(.second)), .wait)], placesExpire: true)
    }

    @Test("a holder that cannot be heard is asked for its place again, ever less often")
    func unheard() {
        var rules = walk([(0, turn, .take(.first)), (0, refused, .wait), (0, .reported(.unheard(.first)), nil)])
        #expect(rules.due == .milliseconds(1))
        var now = Duration.milliseconds(1)
        var asked = 0
        while now < .seconds(4) {
            #expect(rules.handle(.time, at: now) == .take(.first))
            #expect(rules.due == now + .milliseconds(125), "the answer comes first")
            #expect(rules.handle(refused, at: now) == .wait)
            #expect(rules.handle(.reported(.unheard(.first)), at: now) == nil)
            now = rules.due ?? .zero
            asked += 1
        }
        #expect((15...30).contains(asked))
        #expect(rules.handle(.time, at: now) == .take(.first))
        #expect(rules.handle(taken(isNews: true), at: now) == .look)
    }

    @Test("a holder tells those who wait how far it is, and renews a place that expires")
    func telling() {
        var rules = walk([(0, turn, .take(.first)), (0, taken(), .fetch)])
        #expect(rules.due == nil && rules.handle(.time, at: .seconds(9)) == nil)
        #expect(rules.handle(.reported(.awaited(in: .fast)), at: .seconds(10)) == .hurry(.fast))
        #expect(rules.due == .seconds(10) + .seconds(5) / 4)
        #expect(rules.handle(.time, at: .seconds(12)) == .tell)
        #expect(rules.handle(.reported(.awaited(in: nil)), at: .seconds(13)) == .hurry(nil) && rules.due == nil)
        var expiring = walk([(0, turn, .take(.first)), (0, taken(for: .seconds(3)), .fetch)], placesExpire: true)
        #expect(expiring.due == .seconds(1) && expiring.handle(.time, at: .seconds(1)) == .tell)
        #expect(expiring.handle(.reported(.lost), at: .seconds(5)) == nil && expiring.stage == .alone)
        #expect(expiring.handle(turn, at: .seconds(6)) == .fetch)
    }

    @Test("an answer of a service that comes late is kept, and stops nothing")
    func late() {
        let rules = walk([
            (0, turn, .take(.first)), (0, refused, .wait), (5, .time, .take(.first)), (6, told(.kept), .use),
            (6, taken(), nil), (7, turn, .fetch),
        ])
        #expect(rules.stage == .holding(.first))
        _ = walk([
            (0, turn, .take(.first)), (0, refused, .wait), (5, .time, .take(.first)), (6, told(.kept), .use),
            (6, refused, nil),
        ])
    }

    @Test("a service that does not answer is asked again, ever less often, and done without after the patience")
    func silence() {
        let beginnings: [[Step]] = [
            [(0, turn, .take(.first))], [(0, turn, .take(.first)), (0, refused, .wait), (5, .time, .take(.first))],
        ]
        for begin in beginnings {
            var rules = walk(begin)
            let start = Duration.seconds(begin.last?.at ?? 0)
            var asked = 1
            while let due = rules.due, rules.stage != .alone, asked < 100 {
                let action = rules.handle(.time, at: due)
                #expect(action == (due - start < .seconds(5) ? .take(.first) : .fetch))
                if action == .take(.first) { asked += 1 }
            }
            #expect(rules.stage == .alone && asked == 7, "\(asked) questions")
            #expect(rules.handle(taken(), at: start + .seconds(6)) == nil)
            #expect(rules.stage == .holding(.first), "the place is given back in the end")
        }
        _ = walk([(0, turn, .take(.first)), (0.125, .time, .take(.first)), (0.2, taken(), .fetch), (0.3, taken(), nil)])
    }

    @Test("holders that take over from one another have the longest wait together, without their back-offs")
    func manyHolders() {
        var steps: [Step] = [(0, turn, .take(.first)), (0, refused, .wait)]
        for time in [4.0, 8, 12, 16, 20, 24] {
            steps += [
                (time, .reported(.gone(.first)), .look), (time, turn, .take(.first)), (time, refused, .wait),
                (time + 3, told(.moving), nil),
            ]
        }
        #expect(walk(steps).due == .seconds(30))
        _ = walk(steps + [(30, .time, .take(.first)), (30, refused, .take(.second))])
        let pauses = steps + [(27, told(.pausing(.seconds(20))), nil), (28, told(.pausing(.seconds(19))), nil)]
        #expect(walk(pauses + [(48, told(.moving), nil)]).due == .seconds(50), "thirty seconds and the pause")
    }

    @Test("news survives as a number, and no other number is news")
    func codes() {
        let failures: [DipperError] = [.status(404), .status(403), .status(503)]
        var busy = DipperError.status(503)
        busy.retryAfter = .seconds(120)
        let all: [LeaseNews] =
            [.moving, .still, .pausing(.milliseconds(1_500)), .kept, .unshared, .abandoned, .failed(busy)]
            + failures.map { .failed($0) }
        for news in all { #expect(LeaseNews(code: news.code) == news) }
        guard case .failed(let error)? = LeaseNews(code: LeaseNews.failed(busy).code) else {
            Issue.record("no failure")
            return
        }
        #expect(error.retryAfter == .seconds(120))
        // Those of one process alone: of its time limit, its configuration, its credentials.
        let own: [DipperError] = [
            .timedOut, .tooManyRedirects, .addressRefused, .tooLarge, .connectionFailed, .unreachable, .rejected,
            .undecodable, .status(200), .status(401), .status(407),
        ]
        for error in own {
            #expect(LeaseNews(code: LeaseNews.failed(error).code) == .abandoned)
            #expect(LeaseNews(failure: error, isOfURL: true) == .unshared, "\(error): each asks for itself at once")
        }
        #expect(LeaseNews(failure: .status(404), isOfURL: true) == .failed(.status(404)))
        #expect(LeaseNews(failure: .status(404), isOfURL: false) == .unshared)
        #expect(LeaseNews(failure: .cancelled, isOfURL: true) == .abandoned)
        var random = SeededRandom(7)
        for _ in 0..<10_000 {
            let code = UInt64.random(in: .min ... .max, using: &random)
            guard let news = LeaseNews(code: code) else { continue }
            if case .pausing(let time) = news { #expect((.zero ... .seconds(3_600)).contains(time)) }
            #expect(LeaseNews(code: news.code) == news)
        }
    }
}
