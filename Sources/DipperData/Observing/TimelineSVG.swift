/// A drawing of a ``TimelineChart``.
///
/// Everything that looks the same is one path, so that viewers can open a picture of a hundred thousand jobs.
struct TimelineSVG {
    let chart: TimelineChart
    let layout: TimelineLayout
    let axis: TimelineAxis
    let redaction: Redaction

    init(_ chart: TimelineChart, _ redaction: Redaction) {
        self.chart = chart
        self.redaction = redaction
        layout = TimelineLayout(rows: chart.rows.count, hasNote: chart.dropped > 0)
        axis = TimelineAxis(
            start: chart.start, end: chart.end, left: TimelineLayout.left, width: TimelineLayout.plotWidth)
    }

    func document() -> String {
        let (width, height) = (SVGText.number(TimelineLayout.width), SVGText.number(layout.height))
        let loads = chart.loads()
        return [
            """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(width)" height="\(height)" \
            viewBox="0 0 \(width) \(height)" role="img" font-family="\(TimelineStyle.font)" font-size="12" \
            fill="\(TimelineStyle.ink)">
            """,
            "<title>\(SVGText.escaped(title))</title>",
            "<defs>\(TimelineStyle.patterns)</defs>",
            "<rect width=\"\(width)\" height=\"\(height)\" fill=\"#fff\"/>",
            heading(),
            legend(),
            bands(loads),
            grid(),
            labels(),
            spans(),
            marks(),
            tooltips(),
            "</svg>",
        ].filter { !$0.isEmpty }.joined(separator: "\n") + "\n"
    }

    // MARK: Heading

    private var title: String {
        "\(count(chart.jobs, "job")) for \(count(chart.calls, "call")) in \(TimelineAxis.text(chart.duration))"
    }

    private func count(_ number: Int, _ noun: String) -> String {
        "\(SVGText.count(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    private func heading() -> String {
        var answers = [ResponseSource.network, .revalidated, .stale, .shared, .disk, .memory].compactMap {
            source in
            chart.answers[source].map { "\(SVGText.count($0)) \(TimelineStyle.name(.answered(source)))" }
        }
        if chart.failed > 0 { answers.append("\(SVGText.count(chart.failed)) failed") }
        if chart.cancelled > 0 { answers.append("\(SVGText.count(chart.cancelled)) cancelled") }
        let left = TimelineLayout.margin
        var lines = [
            text(title, left, 36, "font-size=\"20\" font-weight=\"600\""),
            text(
                answers.isEmpty ? "No answers" : "Answers: " + answers.joined(separator: " · "), left, 58,
                "font-size=\"13\" fill=\"\(TimelineStyle.quiet)\""),
        ]
        if chart.dropped > 0 {
            let note =
                "The record is full: \(count(chart.dropped, "later event")) \(chart.dropped == 1 ? "is" : "are")"
                + " missing from this picture."
            lines.append(
                text(note, left, 80, "font-size=\"13\" font-weight=\"600\" fill=\"\(TimelineStyle.failure)\"")
            )
        }
        return lines.joined(separator: "\n")
    }

    // MARK: Axis

    private func grid() -> String {
        var path = SVGPath()
        var labels: [String] = []
        for tick in axis.ticks() {
            path.line(tick.x, layout.rowsTop, toX: tick.x, y: layout.rowsBottom)
            for y in [layout.rowsTop - 8, layout.rowsBottom + 18] {
                labels.append(text(tick.label, tick.x, y, "text-anchor=\"middle\""))
            }
        }
        return """
            <path d="\(path.text)" fill="none" stroke="\(TimelineStyle.grid)"/>
            <g font-size="11" fill="\(TimelineStyle.quiet)">\(labels.joined())</g>
            """
    }

    /// Draws the names of the rows, and for each row a stripe in the colour of the queue in which the row began.
    private func labels() -> String {
        var stripes = [FetchQueue.fast: SVGPath(), .slow: SVGPath()]
        var names: [String] = []
        let gap = layout.showsLabels ? 1.0 : 0
        for (index, row) in chart.rows.enumerated() {
            let y = layout.y(index)
            stripes[row.queue]?.rectangle(TimelineLayout.left - 7, y + gap, 4, layout.rowHeight - 2 * gap)
            guard layout.showsLabels else { continue }
            let base = y + layout.rowHeight / 2 + 4
            if row.queue == .slow {
                names.append(
                    text("slow", TimelineLayout.margin, base, "fill=\"\(TimelineStyle.text(.slow))\""))
            }
            names.append(
                text(
                    SVGText.label(of: redaction.text(row.key), width: 25), TimelineLayout.left - 13, base,
                    "text-anchor=\"end\"\(row.queue == .slow ? " fill=\"\(TimelineStyle.text(.slow))\"" : "")")
            )
        }
        let paths = FetchQueue.allCases.map { queue in
            "<path d=\"\(stripes[queue]?.text ?? "")\" fill=\"\(TimelineStyle.colour(queue))\"/>"
        }
        return (paths + (names.isEmpty ? [] : ["<g font-size=\"11\">\(names.joined(separator: "\n"))</g>"]))
            .joined(separator: "\n")
    }

    func text(_ content: String, _ x: Double, _ y: Double, _ attributes: String = "") -> String {
        "<text x=\"\(SVGText.number(x))\" y=\"\(SVGText.number(y))\" \(attributes)>\(SVGText.escaped(content))</text>"
    }
}
