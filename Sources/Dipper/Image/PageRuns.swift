/// The free pages of a region, as ordered runs that are each as long as possible.
struct PageRuns {
    /// The number of pages, free and taken.
    let count: Int
    private(set) var free: [Range<Int>]

    /// Creates a region of free pages.
    init(count: Int) {
        self.count = count
        free = count > 0 ? [0..<count] : []
    }

    var allFree: Bool { free == [0..<count] }

    /// Takes consecutive pages from the first run that is long enough, so that the end of a region is used last.
    /// - Parameter wanted: at least one.
    /// - Returns: the first of the pages; `nil` if no run is long enough.
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

    /// Gives back pages that were taken together, or a part of them.
    mutating func give(_ pages: Range<Int>) {
        // Find the first run after the pages.
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
