import Testing

@testable import DipperData

@Suite("The level of memory pressure follows what the kernel's files say", .timeLimit(.minutes(1)))
struct PressureStateTests {
    @Test("a kill raises the level once, also after a reading without a count; the level falls by steps")
    func kills() {
        var state = PressureState(.standard)
        let readings: [(seconds: Int, kills: Int?, MemoryPressure)] = [
            (0, 3, .normal), (1, nil, .normal), (2, 3, .normal), (3, 4, .severe), (8, 4, .severe), (14, 4, .moderate),
            (25, 4, .normal),
        ]
        for (seconds, kills, level) in readings {
            var reading = PressureReading(moment: .seconds(seconds))
            reading.kills = kills
            state.apply([], reading)
            #expect(state.level == level, "after \(seconds) s")
        }
    }
}
