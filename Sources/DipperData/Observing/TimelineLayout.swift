/// The positions of the picture's parts, in pixels.
struct TimelineLayout {
    static let width = 1_280.0
    static let margin = 24.0
    /// The position at which the time axis begins; the rows' names are left of it.
    static let left = 246.0
    static let plotWidth = 996.0
    static let bandsHeight = 78.0

    let legendTop: Double
    let bandsTop: Double
    let rowsTop: Double
    let rowHeight: Double
    let rowsBottom: Double
    let showsLabels: Bool

    /// Creates the layout for a number of rows.
    /// - Parameter hasNote: whether the heading has a third line.
    init(rows: Int, hasNote: Bool) {
        legendTop = hasNote ? 100 : 78
        bandsTop = legendTop + 56
        rowsTop = bandsTop + Self.bandsHeight + 28
        showsLabels = rows <= 400
        // Rows get lower as their number grows, so that the picture never gets higher than about 6,000 pixels.
        rowHeight =
            switch rows {
            case ...80: 18
            case ...400: 14
            case ...2_000: min(6, 5_600 / Double(rows))
            default: min(1, 5_600 / Double(rows))
            }
        rowsBottom = rowsTop + max(Double(rows) * rowHeight, 40)
    }

    var height: Double { rowsBottom + 36 }

    func y(_ row: Int) -> Double { rowsTop + Double(row) * rowHeight }

    /// Half the size of a mark. At less than 2 pixels, shapes cannot be told apart.
    var markRadius: Double { min(4.2, rowHeight * 0.3) }
    var showsShapes: Bool { markRadius >= 2 }
}
