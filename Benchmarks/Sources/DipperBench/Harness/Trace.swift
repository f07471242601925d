import Foundation

/// A list of the entries that a program asks for, one after the other, and the memory for them. The traces are made by
/// models with fixed seeds.
struct Trace: Sendable {
    let name: String
    /// The numbers of the entries.
    var keys: [Int]
    /// The memory, as the sum of the sizes of entries.
    let room: Int
    /// The sizes of the entries, by their numbers; 1 by default.
    var sizes: [Int]?

    func size(_ key: Int) -> Int { sizes?[key] ?? 1 }

    static let all: [Trace] =
        [zipf(room: 500), zipf(room: 100), zipfWithSizes()] + [200, 500, 2_000].map { feed(room: $0) }
        + [400, 1_500, 6_000].map { gallery(room: $0) }
        + [scan(room: 500), loop(of: 1_000, room: 500), shifting(room: 500)]
        + [100, 500].map { albums(room: $0) }

    /// Traces that suit the order of use alone.
    static let unsuitable = [restlessFeed(room: 500), changing(room: 500)]

    private static let length = 300_000

    /// Entries with the popularities of Zipf's law, as those of web pages have.
    static func zipf(room: Int) -> Trace {
        var random = SeededGenerator(seed: 1)
        let zipf = Zipf(10_000, 1)
        let keys = (0..<length).map { _ in zipf.next(&random) }
        return Trace(name: "Zipf 1.0 of 10,000, room for \(room)", keys: keys, room: room)
    }

    /// Most entries are small, some are a hundred times as large.
    private static func zipfWithSizes() -> Trace {
        var trace = zipf(room: 500)
        var random = SeededGenerator(seed: 2)
        let sizes = (0..<10_000).map { _ in
            Int(exp(3 + (0..<12).reduce(-6) { sum, _ in sum + random.unit() }).rounded(.up))
        }
        trace.sizes = sizes
        return Trace(
            name: "Zipf 1.0, different sizes, room for 5 %", keys: trace.keys, room: sizes.reduce(0, +) / 20,
            sizes: sizes)
    }

    /// A feed: every post has a photograph of its own and the picture of its author. The user scrolls on, and back by
    /// some posts now and then.
    static func feed(room: Int) -> Trace {
        Trace(
            name: "feed, scrolled back, room for \(room)",
            keys: feed(Zipf(5_000, 0.9), forth: 100, back: [(0.6, 0), (0.9, 20), (0.98, 80), (1, 300)]), room: room)
    }

    /// A feed in which every other scroll goes back, some of them far.
    private static func restlessFeed(room: Int) -> Trace {
        Trace(
            name: "feed, scrolled back all the time, room for \(room)",
            keys: feed(Zipf(2_000, 1), forth: 60, back: [(0.5, 0), (0.8, 20), (0.96, 100), (1, 500)]), room: room)
    }

    /// - Parameters:
    ///   - forth: how many posts the user goes on at a time, on average.
    ///   - back: how far the user goes back then, on average, with the sums of the probabilities.
    private static func feed(_ popularity: Zipf, forth: Double, back: [(below: Double, length: Double)]) -> [Int] {
        var random = SeededGenerator(seed: 3)
        var authors: [Int] = []
        var keys: [Int] = []
        var post = 0
        func see(_ post: Int) {
            if post == authors.count { authors.append(popularity.next(&random)) }
            keys += [popularity.count + post, authors[post]]
        }
        while keys.count < length {
            for _ in 0..<random.length(forth) {
                see(post)
                post += 1
            }
            let kind = random.unit()
            let mean = back.first { kind < $0.below }?.length ?? 0
            for _ in 0..<min(post, mean > 0 ? random.length(mean) : 0) {
                post -= 1
                see(post)
            }
        }
        return keys
    }

    /// A grid of 1,200 pictures, 24 of them on the screen. The user scrolls, jumps, and opens pictures one after the other,
    /// which are twenty times as large as in the grid.
    static func gallery(room: Int) -> Trace {
        var random = SeededGenerator(seed: 4)
        let (count, columns, rows, shown) = (1_200, 4, 300, 6)
        let favourites = Zipf(count, 0.8)
        var keys: [Int] = []
        var visible: Set<Int> = []
        var top = 0
        func show(_ row: Int) {
            top = max(0, min(rows - shown, row))
            let now = top * columns..<(top + shown) * columns
            keys += now.filter { !visible.contains($0) }
            visible = Set(now)
        }
        while keys.count < length {
            switch random.unit() {
            case ..<0.65:
                let step = random.unit() < 0.35 ? -1 : 1
                for _ in 0..<random.length(15) { show(top + step) }
            case ..<0.7: show(random.unit() < 0.5 ? 0 : random.below(rows))
            default:
                var picture =
                    random.unit() < 0.3 ? favourites.next(&random) : top * columns + random.below(shown * columns)
                for _ in 0..<random.length(2) {
                    keys.append(count + picture)
                    picture = max(0, min(count - 1, picture + (random.unit() < 0.8 ? 1 : -1)))
                }
                visible = []
                show(picture / columns - random.below(shown))
            }
        }
        let sizes = (0..<2 * count).map { $0 < count ? 1 : 20 }
        return Trace(name: "gallery, room for \(room) small pictures", keys: keys, room: room, sizes: sizes)
    }

    /// Popular entries, and now and then thousands that are asked for once.
    static func scan(room: Int) -> Trace {
        var trace = zipf(room: room).keys
        var next = 10_000
        for place in stride(from: length, to: 0, by: -20_000) {
            trace.insert(contentsOf: next..<next + 5_000, at: place)
            next += 5_000
        }
        return Trace(name: "Zipf 1.0 with scans, room for \(room)", keys: trace, room: room)
    }

    static func loop(of count: Int, room: Int) -> Trace {
        Trace(name: "loop of \(count), room for \(room)", keys: (0..<100_000).map { $0 % count }, room: room)
    }

    /// Every thousand requests twenty popular entries change places with others.
    static func shifting(room: Int) -> Trace {
        var random = SeededGenerator(seed: 5)
        let zipf = Zipf(10_000, 1)
        var entries = Array(0..<10_000)
        let keys = (0..<length).map { request in
            if request % 1_000 == 0 {
                for _ in 0..<20 { entries.swapAt(zipf.next(&random), random.below(entries.count)) }
            }
            return entries[zipf.next(&random)]
        }
        return Trace(name: "Zipf 1.0, popularity shifts, room for \(room)", keys: keys, room: room)
    }

    /// Every three thousand requests all entries are new.
    private static func changing(room: Int) -> Trace {
        let keys = zipf(room: room).keys.enumerated().map { $0 / 3_000 * 10_000 + $1 }
        return Trace(name: "Zipf 1.0, all new now and then, room for \(room)", keys: keys, room: room)
    }

    /// The user looks at one album for a while, in any order, and then at another.
    static func albums(room: Int) -> Trace {
        var random = SeededGenerator(seed: 6)
        let popularity = Zipf(200, 0.7)
        var keys: [Int] = []
        while keys.count < length {
            let album = popularity.next(&random)
            for _ in 0..<random.length(150) { keys.append(album * 400 + random.below(60 + album % 7 * 40)) }
        }
        return Trace(name: "albums, room for \(room)", keys: keys, room: room)
    }
}

/// Numbers from 0 on, of which each is asked for as often as Zipf's law says.
private struct Zipf {
    private let sums: [Double]
    var count: Int { sums.count }

    init(_ count: Int, _ exponent: Double) {
        var sum = 0.0
        sums = (1...count).map { rank in
            sum += pow(Double(rank), -exponent)
            return sum
        }
    }

    func next(_ random: inout SeededGenerator) -> Int {
        let value = random.unit() * (sums.last ?? 0)
        var (low, high) = (0, sums.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if sums[middle] < value { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension SeededGenerator {
    fileprivate mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

    fileprivate mutating func below(_ count: Int) -> Int { Int(next() % UInt64(count)) }

    /// Returns a length of 1 or more, shorter ones more often.
    fileprivate mutating func length(_ mean: Double) -> Int { 1 + Int(-mean * log(1 - unit())) }
}
