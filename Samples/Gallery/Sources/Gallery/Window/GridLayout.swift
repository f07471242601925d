import Dipper

/// The positions of the cells of a grid: rows of equal cells, with as many columns as fit the width.
struct GridLayout: Equatable {
    static let leastWidth = 2 * Style.cellWidth

    let count: Int
    let columns: Int
    let cell: PixelSize
    private let margin: Int

    init(count: Int, width: Int) {
        self.count = count
        columns = max(1, (width - Style.gap) / (Style.cellWidth + Style.gap))
        let wide = max(1, (width - Style.gap * (columns + 1)) / columns)
        margin = (width - columns * wide - (columns - 1) * Style.gap) / 2
        cell = PixelSize(width: wide, height: max(1, Int(Double(wide) * Style.proportion)))
    }

    var step: (x: Int, y: Int) { (cell.width + Style.gap, cell.height + Style.gap) }
    var rows: Int { (count + columns - 1) / columns }
    var height: Int { Style.gap + rows * step.y }

    func frame(of index: Int) -> (x: Int, y: Int) {
        (margin + index % columns * step.x, Style.gap + index / columns * step.y)
    }

    /// Returns the cells that lie wholly or partly between two heights.
    func visible(from top: Double, to bottom: Double) -> Range<Int> {
        guard count > 0, bottom > top else { return 0..<0 }
        let first = max(0, Int((top - Double(Style.gap)) / Double(step.y)))
        let last = Int(((bottom - Double(Style.gap)) / Double(step.y)).rounded(.up))
        let start = min(first * columns, count)
        return start..<max(start, min(last * columns, count))
    }
}
