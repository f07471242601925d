import Foundation

/// How the list is scrolled when nobody does it: flings, rests, reading on slowly, jumps.
struct Script {
    enum Move {
        /// Stays, for so many seconds.
        case rest(Double)
        /// As by a finger that is lifted: so many pages, less and less fast.
        case fling(pages: Double)
        /// At an even pace.
        case read(pages: Double, seconds: Double)
        /// At once, to a part of the whole.
        case jump(to: Double)
    }

    /// Again and again.
    static let moves: [Move] = [
        .rest(1), .fling(pages: 6), .rest(1.2), .fling(pages: 25), .fling(pages: 25), .rest(1.2),
        .read(pages: 3, seconds: 4), .rest(0.6), .fling(pages: -8), .rest(1), .jump(to: 0.5), .rest(1.2),
        .fling(pages: 40), .rest(1.2), .read(pages: -2, seconds: 2), .jump(to: 0.93), .rest(1), .fling(pages: -15),
        .rest(1), .jump(to: 0),
    ]

    /// How long a fling takes to nearly stop.
    static let flingSeconds = 1.5

    private var number = 0
    private var moveStart: Double?
    private var origin = 0.0

    /// What the list does.
    var move: Move { Self.moves[number % Self.moves.count] }

    /// Where the top of the view is to be.
    /// - Parameters:
    ///   - time: in seconds.
    ///   - top: where it is.
    ///   - mayGoOn: whether a rest may end.
    /// - Returns: `nil` to stay.
    mutating func position(at time: Double, top: Double, page: Double, end: Double, mayGoOn: Bool) -> Double? {
        if moveStart == nil { origin = top }
        let start = moveStart ?? time
        moveStart = start
        let elapsed = time - start
        switch move {
        case .rest(let seconds):
            if elapsed >= seconds, mayGoOn { next() }
            return nil
        case .fling(let pages):
            if elapsed >= Self.flingSeconds { next() }
            // The speed falls to a hundredth on the way.
            let decay = log(100) / Self.flingSeconds
            let part = (1 - exp(-decay * elapsed)) / (1 - exp(-decay * Self.flingSeconds))
            return limited(origin + pages * page * min(part, 1), end)
        case .read(let pages, let seconds):
            if elapsed >= seconds { next() }
            return limited(origin + pages * page * min(elapsed / seconds, 1), end)
        case .jump(let part):
            next()
            return limited(part * end, end)
        }
    }

    private mutating func next() {
        number += 1
        moveStart = nil
    }

    private func limited(_ position: Double, _ end: Double) -> Double { min(max(position.rounded(), 0), end) }
}
