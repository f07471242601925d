import Foundation

/// A script that scrolls the list in place of a person: flings, rests, slow reading, jumps.
struct Script {
    enum Move {
        case rest(Double)
        /// Moves by a number of pages and slows down, as after a flick of a finger.
        case fling(pages: Double)
        case read(pages: Double, seconds: Double)
        /// Jumps to a position between 0, the top of the list, and 1, its end.
        case jump(to: Double)
    }

    static let moves: [Move] = [
        .rest(1), .fling(pages: 6), .rest(1.2), .fling(pages: 25), .fling(pages: 25), .rest(1.2),
        .read(pages: 3, seconds: 4), .rest(0.6), .fling(pages: -8), .rest(1), .jump(to: 0.5), .rest(1.2),
        .fling(pages: 40), .rest(1.2), .read(pages: -2, seconds: 2), .jump(to: 0.93), .rest(1), .fling(pages: -15),
        .rest(1), .jump(to: 0),
    ]

    static let flingSeconds = 1.5

    private var number = 0
    private var moveStart: Double?
    private var origin = 0.0

    var move: Move { Self.moves[number % Self.moves.count] }

    /// Returns the next position of the top of the view.
    /// - Parameters:
    ///   - time: The time in seconds.
    ///   - top: The current position.
    ///   - page: The height of the view.
    ///   - end: The largest position.
    /// - Returns: `nil` if the view stays where it is.
    mutating func position(at time: Double, top: Double, page: Double, end: Double) -> Double? {
        if moveStart == nil { origin = top }
        let start = moveStart ?? time
        moveStart = start
        let elapsed = time - start
        switch move {
        case .rest(let seconds):
            if elapsed >= seconds { next() }
            return nil
        case .fling(let pages):
            if elapsed >= Self.flingSeconds { next() }
            // The speed falls to a hundredth of its first value during the fling.
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
