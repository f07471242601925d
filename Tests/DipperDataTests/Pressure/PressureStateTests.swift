import Foundation
import Testing

@testable import DipperData

@Suite("What the level of memory pressure is made of", .timeLimit(.minutes(5)))
struct PressureStateTests {
    /// One step: at a time in seconds, a sign, what is in use, and the level that comes of it.
    struct Step: Sendable {
        let at: Double
        let sign: PressureSign
        let use: MemoryUse
        let level: MemoryPressure

        init(_ at: Double, _ sign: PressureSign, _ level: MemoryPressure, group: Double? = nil, machine: Double? = nil)
        {
            (self.at, self.sign, self.level) = (at, sign, level)
            use = MemoryUse(group: group, machine: machine)
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let steps: [Step]

        init(_ rule: String, _ steps: Step...) {
            testDescription = rule
            self.steps = steps
        }
    }

    static let rows = [
        Row("nothing happens", Step(0, .looked, .normal), Step(100, .looked, .normal)),
        Row(
            "tasks that wait are moderate, for ten seconds", Step(0, .stalled, .moderate),
            Step(9.9, .looked, .moderate), Step(10, .looked, .normal)),
        Row(
            "each sign begins the ten seconds anew", Step(0, .stalled, .moderate), Step(9, .stalled, .moderate),
            Step(18, .looked, .moderate), Step(19, .looked, .normal)),
        Row(
            "severe falls by a step at a time", Step(0, .blocked, .severe), Step(10, .looked, .moderate),
            Step(19, .looked, .moderate), Step(20, .looked, .normal)),
        Row(
            "moderate becomes severe at once", Step(0, .stalled, .moderate), Step(1, .blocked, .severe),
            Step(11, .looked, .moderate)),
        Row(
            "a lesser sign does not prolong severe", Step(0, .blocked, .severe), Step(9, .stalled, .severe),
            Step(10, .stalled, .moderate), Step(20, .looked, .normal)),
        Row(
            "severe again after it has fallen", Step(0, .blocked, .severe), Step(10, .looked, .moderate),
            Step(11, .critical, .severe)),
        Row("version 1 speaks of medium and critical", Step(0, .pressed, .moderate), Step(1, .critical, .severe)),
        Row("out of memory is severe", Step(0, .outOfMemory, .severe)),
        Row(
            "a late look falls one step, not two", Step(0, .blocked, .severe), Step(1000, .looked, .moderate),
            Step(1010, .looked, .normal)),
        Row(
            "tasks of a machine with memory to spare wait for limits of their own",
            Step(0, .machineBlocked, .normal, machine: 0.5), Step(1, .machineStalled, .normal, machine: 0.79)),
        Row(
            "a machine that is short", Step(0, .machineStalled, .moderate, machine: 0.8),
            Step(1, .machineBlocked, .severe, machine: 0.9)),
        Row("a machine of which no more is known", Step(0, .machineBlocked, .severe)),
        Row(
            "much of a limit in use", Step(0, .looked, .normal, group: 0.84), Step(1, .looked, .moderate, group: 0.85),
            Step(2, .looked, .severe, group: 0.95)),
        Row(
            "use that falls a little changes nothing", Step(0, .looked, .moderate, group: 0.86),
            Step(10, .looked, .moderate, group: 0.76), Step(20, .looked, .normal, group: 0.74),
            Step(21, .looked, .normal, group: 0.8)),
        Row(
            "severe by use ends below nine tenths", Step(0, .looked, .severe, group: 0.96),
            Step(10, .looked, .severe, group: 0.91), Step(20, .looked, .moderate, group: 0.89),
            Step(30, .looked, .moderate, group: 0.8)),
        Row(
            "a limit that is exceeded, and one of nothing", Step(0, .looked, .severe, group: 1.4),
            Step(10, .looked, .severe, group: .infinity)),
        Row("shares that are no numbers", Step(0, .looked, .normal, group: .nan, machine: .nan)),
    ]

    @Test("the level follows signs, use and time", arguments: rows)
    func table(row: Row) {
        var state = PressureState(calm: .seconds(10))
        for step in row.steps {
            state.apply(step.sign, step.use, at: .seconds(step.at))
            #expect(state.level == step.level, "at \(step.at)")
            #expect((state.due == nil) == (state.level == .normal))
        }
    }

    @Test("in any order of signs it ends as normal, soon after the last one, and is due until then")
    func recovers() {
        let seed = UInt64.random(in: .min ... .max)
        var random = SplitMix(state: seed)
        let signs: [PressureSign] = [
            .stalled, .blocked, .machineStalled, .machineBlocked, .pressed, .critical, .outOfMemory, .looked,
        ]
        for _ in 0..<200 {
            var state = PressureState(calm: .seconds(10))
            var now = Duration.zero
            for _ in 0..<random.below(30) {
                now += .milliseconds(random.below(15_000))
                state.apply(
                    signs[random.below(signs.count)],
                    MemoryUse(group: Double(random.below(120)) / 100, machine: Double(random.below(100)) / 100), at: now
                )
            }
            let last = now
            while let due = state.due {
                now = max(now, due)
                state.apply(.looked, MemoryUse(group: 0.1, machine: 0.1), at: now)
                guard now - last <= .seconds(21) else { break }
            }
            #expect(state.level == .normal && now - last <= .seconds(20), "seed \(seed)")
        }
    }

    @Test("waiting between two looks counts by its share of the time")
    func shares() throws {
        let start = try #require(
            StallTimes("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 total=500000\n"))
        #expect(start == StallTimes(some: .seconds(1), full: .milliseconds(500)))
        func sign(some: Double, full: Double, machine: Bool = false) -> PressureSign? {
            StallTimes(some: start.some + .seconds(some), full: start.full + .seconds(full))
                .sign(since: start, over: .seconds(5), ofMachine: machine)
        }
        #expect(sign(some: 0.4, full: 0.4) == nil)
        #expect(sign(some: 0.5, full: 0.4) == .stalled)
        #expect(sign(some: 1, full: 1) == .blocked)
        #expect(sign(some: 1, full: 1, machine: true) == .machineBlocked)
        #expect(sign(some: 1, full: 0, machine: true) == .machineStalled)
        // A counter that goes back.
        #expect(sign(some: -1, full: -0.5) == nil)
        #expect(start.sign(since: start, over: .zero, ofMachine: false) == nil)
    }

    @Test(
        "what has not the form of a pressure file tells nothing",
        arguments: [
            "", "\n\n", "some", "some total=", "some total=x", "some total=-1", "some total=99999999999999999999",
            "some total=9223372036854775807", "full total=1", "\0\u{FFFD}", "some avg10=total=1",
        ])
    func hostile(text: String) {
        #expect(StallTimes(text) == nil)
    }

    @Test("triggers are written as the kernel wants them")
    func triggers() {
        #expect(StallTrigger.moderate.text == "some 200000 2000000")
        #expect(StallTrigger.severe.text == "full 400000 2000000")
    }
}
