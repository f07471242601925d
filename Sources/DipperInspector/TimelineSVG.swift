import DipperData

/// A drawing of a ``TimelineChart``. Everything that looks the same is one path, so that viewers can open a picture of
/// a hundred thousand jobs.
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

    /// Draws the names, and for each row a stripe in the colour of the queue in which the row began.
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

extension TimelineSVG {
    private struct Look: Hashable {
        let phase: TimelineChart.Phase
        let queue: FetchQueue
    }

    func spans() -> String {
        var paths: [Look: SVGPath] = [:]
        for (index, row) in chart.rows.enumerated() {
            for span in row.spans {
                let start = axis.x(span.start)
                // A transfer is never too short to be drawn; a wait may be.
                let width = max(axis.x(span.end) - start, span.phase == .transferring ? 1 : 0)
                guard width >= 0.2 else { continue }
                let part = layout.rowHeight >= 4 ? TimelineStyle.height(span.phase) : 1
                let height = layout.rowHeight * part
                let y = layout.y(index) + (layout.rowHeight - height) / 2
                paths[Look(phase: span.phase, queue: span.queue), default: SVGPath()].rectangle(
                    start, y, width, height)
            }
        }
        // Queued spans are drawn first, so that they do not cover a short transfer between two waits.
        return TimelineChart.Phase.allCases.flatMap { phase in
            FetchQueue.allCases.compactMap { queue in
                paths[Look(phase: phase, queue: queue)].map { path in
                    "<path class=\"\(phase) \(queue)\" d=\"\(path.text)\" \(TimelineStyle.attributes(phase, queue))/>"
                }
            }
        }.joined(separator: "\n")
    }

    func marks() -> String {
        var paths: [TimelineChart.Moment: SVGPath] = [:]
        var open = SVGPath()
        for (index, row) in chart.rows.enumerated() {
            let middle = layout.y(index) + layout.rowHeight / 2
            var last: (moment: TimelineChart.Moment, x: Double)?
            for mark in row.marks {
                let x = axis.x(mark.time)
                // Several callers of one job end at once: one mark is enough.
                if let last, last.moment == mark.moment, x - last.x < 1 { continue }
                last = (mark.moment, x)
                draw(mark.moment, x, middle, into: &paths[mark.moment, default: SVGPath()])
            }
            if row.isOpen, layout.showsShapes {
                TimelineStyle.drawOpen(axis.x(row.end) + 3, middle, layout.markRadius, into: &open)
            }
        }
        var elements = Self.momentsInOrder.compactMap { moment in
            paths[moment].map { element(moment, $0) }
        }
        if !open.isEmpty {
            elements.append("<path class=\"open\" d=\"\(open.text)\" \(TimelineStyle.openAttributes)/>")
        }
        return elements.joined(separator: "\n")
    }

    static let momentsInOrder: [TimelineChart.Moment] = [
        .promoted, .demoted, .answered(.network), .answered(.revalidated), .answered(.stale),
        .answered(.shared), .answered(.disk),
        .answered(.memory), .cancelled, .failed,
    ]

    private func draw(_ moment: TimelineChart.Moment, _ x: Double, _ y: Double, into path: inout SVGPath) {
        let radius = layout.markRadius
        switch moment {
        case .promoted, .demoted:
            if layout.showsShapes { TimelineStyle.draw(moment, x, y, radius, into: &path) }
        case .answered, .cancelled, .failed:
            // Beside the end of the bar, not over it.
            if layout.showsShapes {
                TimelineStyle.draw(moment, x + radius + 2, y, radius, into: &path)
            } else if [.failed, .cancelled, .answered(.memory), .answered(.disk)].contains(moment) {
                path.rectangle(x, y - layout.rowHeight / 2, 2, layout.rowHeight)
            }
        }
    }

    private func element(_ moment: TimelineChart.Moment, _ path: SVGPath) -> String {
        guard !path.isEmpty else { return "" }
        let attributes =
            layout.showsShapes
            ? TimelineStyle.attributes(moment)
            : "fill=\"\(TimelineStyle.colour(moment))\""
        return "<path class=\"\(Self.cssClass(moment))\" d=\"\(path.text)\" \(attributes)/>"
    }

    private static func cssClass(_ moment: TimelineChart.Moment) -> String {
        switch moment {
        case .promoted: "promoted"
        case .demoted: "demoted"
        case .answered(let source): source.rawValue
        case .cancelled: "cancelled"
        case .failed: "failed"
        }
    }

    /// Draws areas over the rows that show the whole key and the figures of a row where the pointer rests.
    func tooltips() -> String {
        guard layout.showsLabels, !chart.rows.isEmpty else { return "" }
        let rows = chart.rows.enumerated().map { index, row in
            var path = SVGPath()
            path.rectangle(
                TimelineLayout.margin, layout.y(index), TimelineLayout.left + TimelineLayout.plotWidth,
                layout.rowHeight)
            return "<path d=\"\(path.text)\"><title>\(SVGText.escaped(tooltip(row)))</title></path>"
        }
        return "<g fill=\"none\" pointer-events=\"all\">\n\(rows.joined(separator: "\n"))\n</g>"
    }

    private func tooltip(_ row: TimelineChart.Row) -> String {
        let key = SVGText.shortened(String(redaction.text(row.key).prefix(4_000)), width: 200)
        let start = TimelineAxis.text(row.start - chart.start)
        guard row.isJob else { return "\(key): at \(start)" }
        var parts = ["from \(start), \(TimelineAxis.text(row.end - row.start))"]
        for phase in TimelineChart.Phase.allCases {
            let time = row.spans.filter { $0.phase == phase }.reduce(.zero) { $0 + ($1.end - $1.start) }
            if time > .zero { parts.append("\(phase) \(TimelineAxis.text(time))") }
        }
        if let failure = row.failure { parts.append("failed: \(failure)") }
        let cancelled = row.marks.count { $0.moment == .cancelled }
        if cancelled > 0 { parts.append(cancelled == 1 ? "cancelled" : "\(SVGText.count(cancelled)) calls cancelled") }
        return "\(key): \(parts.joined(separator: ", "))"
    }
}
