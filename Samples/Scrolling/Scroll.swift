import Dipper
import Foundation

/// A replay of a person who scrolls through the list: the positions of the top row and the time spent at each.
struct Scroll {
    struct Stop {
        let top: Int
        let stay: Duration
    }

    let rows: Int
    let screen: Int
    /// The number of rows below the screen that the list prefetches.
    let ahead: Int

    /// The stops of the replay: the top, a jump to the middle and back, slowly down, fast down, a little up, and fast
    /// to the end.
    var stops: [Stop] {
        var stops = [Stop(top: 0, stay: .milliseconds(450))]
        func stop(at top: Int, for stay: Int) {
            stops.append(Stop(top: min(max(top, 0), max(rows - screen, 0)), stay: .milliseconds(stay)))
        }
        func move(by step: Int, times: Int, every pause: Int) {
            for _ in 0..<times { stop(at: (stops.last?.top ?? 0) + step, for: pause) }
        }
        stop(at: rows / 2, for: 500)
        stop(at: 0, for: 300)
        move(by: 2, times: 8, every: 120)
        move(by: 0, times: 1, every: 400)
        move(by: 4, times: 5, every: 80)
        move(by: 0, times: 1, every: 500)
        move(by: -3, times: 4, every: 120)
        move(by: 0, times: 1, every: 300)
        let left = rows - screen - (stops.last?.top ?? 0)
        move(by: 5, times: max(0, left + 4) / 5, every: 80)
        return stops
    }
}

/// A list on the screen that requests rows from the cache as they appear and disappear.
struct ListView {
    let scroll: Scroll
    let cache: ImageCache
    let log: CallLog
    let urls: [URL]
    private var visible = 0..<0
    /// The rows that the list has requested at least once.
    private var known = Set<Int>()

    init(_ scroll: Scroll, urls: [URL], cache: ImageCache, log: CallLog) {
        self.scroll = scroll
        self.urls = urls
        self.cache = cache
        self.log = log
    }

    mutating func move(top: Int) {
        let now = top..<min(top + scroll.screen, urls.count)
        for row in now where !visible.contains(row) {
            known.insert(row)
            log.add(.row, urls[row], cache.getImage)
        }
        // Rows are demoted after the new requests: prefetches start as soon as fastQueue is empty, even for a moment.
        for row in visible where !now.contains(row) {
            cache.moveTaskToSlowQueue(urls[row])
        }
        for row in now.upperBound..<min(now.upperBound + scroll.ahead, urls.count)
        where known.insert(row).inserted {
            log.add(.ahead, urls[row], cache.slowGetImage)
        }
        visible = now
    }
}
