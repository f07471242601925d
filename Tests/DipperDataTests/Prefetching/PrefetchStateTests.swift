import Testing

@testable import DipperData

@Suite("What a prefetcher may begin, and what has become of it", .timeLimit(.minutes(5)))
struct PrefetchStateTests {
    private enum Step: Sendable {
        case start, pause, resume, stop
        /// So many are asked for, and so many are given.
        case take(Int)
        case add([String])
        case skip(Int), end(Int), fail(Int), park(Int), unpark(Int)
    }

    private struct Row: Sendable {
        var requests = ["a", "b", "c", "d"]
        var outstanding = 2
        let steps: [Step]
        var taken: [String] = []
        var completed: [String] = []
        var failed: [String] = []
        var skipped: [String] = []
        var remaining: [String] = []
        var hasEnded = false
        var total = 4
    }

    private static let rows = [
        Row(steps: [.take(3)]),
        Row(steps: [.start, .take(3)], taken: ["a", "b"]),
        // Pause and take.
        Row(steps: [.start, .pause, .take(3)]),
        Row(steps: [.pause, .start, .take(3)]),
        Row(steps: [.start, .take(1), .pause, .end(1), .take(3)], taken: ["a"], completed: ["a"]),
        Row(steps: [.start, .pause, .resume, .take(3)], taken: ["a", "b"]),
        // Each end makes room; one that is told twice counts once.
        Row(steps: [.start, .take(3), .end(1), .end(1), .take(3)], taken: ["a", "b", "c"], completed: ["a"]),
        Row(
            steps: [.start, .take(2), .skip(2), .fail(1), .take(1)], taken: ["a", "b", "c"], failed: ["a"],
            skipped: ["b"]),
        // A stop tells of what runs first; nothing comes after it.
        Row(
            steps: [.start, .take(2), .end(2), .take(1), .stop, .end(1), .skip(3), .fail(1), .park(3), .take(1)],
            taken: ["a", "b", "c"], completed: ["b"], remaining: ["a", "c", "d"], hasEnded: true),
        Row(steps: [.stop, .start, .take(1)], remaining: ["a", "b", "c", "d"], hasEnded: true),
        Row(steps: [.stop, .stop, .add(["e"])], remaining: ["a", "b", "c", "d"], hasEnded: true),
        // What is added comes last; after the end it is too late.
        Row(requests: ["a"], steps: [.add(["b"]), .start, .take(2)], taken: ["a", "b"], total: 2),
        Row(
            requests: ["a"], steps: [.start, .take(1), .end(1), .add(["b"]), .take(1)], taken: ["a"], completed: ["a"],
            hasEnded: true, total: 1),
        Row(requests: [], steps: [.start, .add(["a"]), .take(1)], hasEnded: true, total: 0),
        Row(requests: [], steps: [.add(["a"]), .start, .take(1)], taken: ["a"], total: 1),
        // What is parked holds no place until it goes on, which it may at any time.
        Row(steps: [.start, .take(2), .park(1), .take(2)], taken: ["a", "b", "c"]),
        Row(steps: [.start, .take(2), .park(1), .park(1), .take(1), .unpark(1), .take(1)], taken: ["a", "b", "c"]),
        Row(
            steps: [.start, .take(2), .park(1), .take(1), .unpark(1), .end(2), .take(1), .end(3), .take(1)],
            taken: ["a", "b", "c", "d"], completed: ["b", "c"]),
        Row(steps: [.start, .take(2), .park(1), .end(1), .take(2)], taken: ["a", "b", "c"], completed: ["a"]),
        Row(steps: [.start, .park(1), .unpark(7), .take(3)], taken: ["a", "b"]),
        Row(
            requests: ["a"], steps: [.start, .take(1), .park(1), .stop, .unpark(1)], taken: ["a"], remaining: ["a"],
            hasEnded: true, total: 1),
        Row(requests: ["a"], steps: [.start, .take(1), .park(1)], taken: ["a"], total: 1),
        // At least one place there is.
        Row(outstanding: -1, steps: [.start, .take(2)], taken: ["a"]),
    ]

    @Test("each line of the table", arguments: rows.indices)
    func table(number: Int) {
        let row = Self.rows[number]
        var state = PrefetchState(row.requests, maxOutstanding: row.outstanding)
        var taken: [String] = []
        for step in row.steps {
            switch step {
            case .start: state.start()
            case .pause: state.isPaused = true
            case .resume: state.isPaused = false
            case .stop: state.stop()
            case .take(let count):
                for _ in 0..<count {
                    #expect(state.mayTake == (state.take().map { taken.append($0.request) } != nil))
                }
            case .add(let requests): #expect(state.add(requests) != row.hasEnded)
            case .skip(let number): state.skip(number)
            case .end(let number): state.end(number, nil)
            case .fail(let number): state.end(number, .timedOut)
            case .park(let number): state.park(number)
            case .unpark(let number): state.unpark(number)
            }
        }
        let result = state.result
        #expect(taken == row.taken)
        #expect(result.completed == row.completed && result.skipped == row.skipped)
        #expect(result.failed.map(\.request) == row.failed && result.remaining == row.remaining)
        #expect(state.hasEnded == row.hasEnded && state.progress.total == row.total)
        #expect(state.progress.finished == row.completed.count + row.skipped.count + row.failed.count)
    }

    @Test("only so many are parked")
    func parked() {
        let count = PrefetchState<Int>.maxParked
        var state = PrefetchState(Array(0..<count * 2), maxOutstanding: 3)
        state.start()
        while let (number, _) = state.take() { state.park(number) }
        #expect(!state.mayTake)
        state.unpark(1)
        #expect(state.mayTake)
        var others = 0
        while state.take() != nil { others += 1 }
        #expect(others == 2)
    }
}
