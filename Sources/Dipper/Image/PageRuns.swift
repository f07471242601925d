/// Which pages of a region are free: runs of them, in order, each as long as can be.
struct PageRuns {
    /// Free and taken.
    let count: Int
    private(set) var free: [Range<Int>]

    /// So many pages, all free.
    init(count: Int) {
        self.count = count
        free = count > 0 ? [0..<count] : []
    }

    var allFree: Bool { free == [0..<count] }

    /// Takes pages that follow one another, the first that there are: the end of a region is used last.
    /// - Parameter wanted: one at least.
    /// - Returns: the first of them; `nil` if no run is long enough.
    mutating func take(_ wanted: Int) -> Int? {
        guard let index = free.firstIndex(where: { $0.count >= wanted }) else { return nil }
        let run = free[index]
        if run.count == wanted {
            free.remove(at: index)
        } else {
            free[index] = run.lowerBound + wanted..<run.upperBound
        }
        return run.lowerBound
    }

    /// Gives pages back, all that were taken together or a part of them.
    mutating func give(_ pages: Range<Int>) {
        // The first run behind them.
        var (low, high) = (0, free.count)
        while low < high {
            let middle = (low + high) / 2
            if free[middle].lowerBound < pages.upperBound { low = middle + 1 } else { high = middle }
        }
        var (start, end) = (pages.lowerBound, pages.upperBound)
        var (first, last) = (low, low)
        if low > 0 {
            precondition(free[low - 1].upperBound <= start, "Pages are given back once.")
            if free[low - 1].upperBound == start {
                start = free[low - 1].lowerBound
                first = low - 1
            }
        }
        if low < free.count, free[low].lowerBound == end {
            end = free[low].upperBound
            last = low + 1
        }
        free.replaceSubrange(first..<last, with: CollectionOfOne(start..<end))
    }
}
