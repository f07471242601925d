import Testing

@testable import Dipper

@Suite("Which rows of a list are fetched", .timeLimit(.minutes(2)))
struct ListWindowTests {
    private func window(_ count: Int = 1000) -> ListWindow { ListWindow(count: count, ListOptions()) }

    /// Moves ten rows at a time, of which as many can be seen.
    private func moved(from start: Int, by step: Int, every interval: Duration) -> ListWindow {
        var window = window()
        for time in 0..<10 {
            let first = start + time * step
            window.move(to: first..<first + 10, heading: nil, at: interval * time)
        }
        return window
    }

    @Test("at rest, rows on both sides follow those that can be seen; on the move, those in the direction of travel")
    func nearby() {
        var window = window()
        window.move(to: 100..<104, heading: nil, at: .zero)
        #expect(window.wanted == [100, 101, 102, 103] && !window.isRushing && window.restsAt == nil)
        #expect(Array(window.nearby.prefix(4)) == [104, 99, 105, 98] && window.window == 96..<108)
        let down = moved(from: 100, by: 1, every: .milliseconds(40))
        #expect(down.visible == 109..<119 && down.direction == 1 && !down.isRushing && down.window == 99..<139)
        #expect(Array(down.nearby.prefix(3)) == [119, 120, 121] && Array(down.nearby.suffix(2)) == [100, 99])
        let up = moved(from: 900, by: -1, every: .milliseconds(40))
        #expect(Array(up.nearby.prefix(3)) == [890, 889, 888] && up.window == 871..<911)
        #expect(down.rank(of: 119) == .near && down.rank(of: 139) == .far && down.rank(of: 98) == .far)
    }

    @Test("rows that rush by are not fetched; those at which the list rests, or will rest, are")
    func rushing() {
        var window = moved(from: 0, by: 5, every: .milliseconds(16))
        #expect(window.isRushing && window.wanted.isEmpty && window.nearby.isEmpty)
        #expect(window.rank(of: 47) == .passing && window.rank(of: 56) == .far)
        #expect(window.restsAt == .milliseconds(9 * 16 + 50))
        var heading = window
        heading.move(to: 55..<65, heading: 300..<310, at: .milliseconds(160))
        #expect(heading.wanted == Array(300..<310))
        #expect(heading.rank(of: 305) == .visible && heading.rank(of: 57) == .passing)
        window.rest()
        #expect(!window.isRushing && window.wanted == Array(45..<55) && window.rank(of: 47) == .visible)
        #expect(window.nearby.first == 55 && window.restsAt == nil)
    }

    @Test("a list that was at rest, or has other rows, has no past: a jump does not rush, what follows may")
    func jumps() {
        var window = moved(from: 0, by: 5, every: .milliseconds(16))
        for (first, time, isRushing) in [(46, 5_000, false), (800, 6_000, false), (850, 6_016, true)] {
            window.move(to: first..<first + 10, heading: nil, at: .milliseconds(time))
            #expect(window.isRushing == isRushing, "\(first)")
        }
        // A clock that goes back is no movement.
        window.move(to: 900..<910, heading: nil, at: .seconds(1))
        #expect(!window.isRushing)
        window.reload(count: 800)
        window.move(to: 0..<10, heading: nil, at: .milliseconds(1_016))
        #expect(!window.isRushing && window.wanted == Array(0..<10))
    }

    @Test(
        "one line at a time is not rushing, however often the list tells of itself",
        arguments: [(2, 60, 1), (5, 60, 1), (10, 120, 1), (20, 240, 1), (24, 60, 4), (40, 60, 8)])
    func crawling(visible: Int, hertz: Int, step: Int) {
        var window = window(100_000)
        var first = 100
        for frame in 0..<hertz * 4 {
            if frame % (hertz / 2) == hertz / 2 - 1 { first += step }
            window.move(to: first..<first + visible, heading: nil, at: .seconds(Double(frame) / Double(hertz)))
            #expect(!window.isRushing)
        }
    }

    @Test("slowing down, rows are fetched again as soon as they stay long enough")
    func slowingDown() {
        var window = moved(from: 0, by: 5, every: .milliseconds(16))
        var (first, time, stayed) = (45, Duration.milliseconds(144), [Bool]())
        for step in [4, 3, 2, 1, 1] + Array(repeating: 0, count: 15) {
            first += step
            time += .milliseconds(16)
            window.move(to: first..<first + 10, heading: nil, at: time)
            stayed.append(!window.isRushing)
        }
        #expect(!stayed.prefix(8).contains(true) && stayed.last == true)
        #expect((2..<12).contains(stayed.count { $0 }))
    }

    @Test("ends, empty lists and silly ranges")
    func bounds() {
        var window = window(20)
        window.move(to: -5..<3, heading: nil, at: .zero)
        #expect(window.visible == 0..<3 && window.window == 0..<6)
        window.move(to: 15..<400, heading: 300..<400, at: .seconds(1))
        #expect(window.visible == 15..<20 && window.window.upperBound == 20)
        window.move(to: 300..<400, heading: nil, at: .seconds(2))
        #expect(window.visible.isEmpty && window.nearby.isEmpty && window.wanted.isEmpty)
        for count in [0, -3] {
            var empty = self.window(count)
            empty.move(to: 0..<5, heading: nil, at: .seconds(3))
            #expect(empty.wanted.isEmpty && empty.window == 0..<0)
        }
        var options = ListOptions()
        options.screensAhead = .nan
        options.screensBehind = .infinity
        var huge = ListWindow(count: .max, options)
        huge.move(to: Int.max - 5..<Int.max, heading: nil, at: .zero)
        #expect(huge.window.upperBound == .max && huge.rank(of: 3) == .near)
        #expect(huge.nearby.count == Int.max - 5 && huge.nearby.first == Int.max - 6 && huge.wanted.count == 5)
    }
}
