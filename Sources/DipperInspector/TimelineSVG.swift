import DipperData

/// Draws what looks the same as one path, so that viewers can open a picture of a hundred thousand fetches.
struct TimelineSVG {
    private let chart: TimelineChart
    private let layout: TimelineLayout
    private let axis: TimelineAxis
    private let redaction: Redaction
    /// The kinds of marks that can be told apart in rows of this height, in the order in which they are drawn.
    private let kinds: [MarkStyle]

    init(_ chart: TimelineChart, _ redaction: Redaction) {
        self.chart = chart
        self.redaction = redaction
        layout = TimelineLayout(rows: chart.rows.count, hasNote: chart.dropped > 0)
        axis = TimelineAxis(start: chart.start, end: chart.end)
        let coarse: [TimelineChart.Moment] = [.answered(.disk), .answered(.memory), .cancelled, .failed]
        kinds = layout.isDetailed ? MarkStyle.all : MarkStyle.all.filter { coarse.contains($0.moment) }
    }

    func document() -> String {
        let (width, height) = (SVGText.number(TimelineLayout.width), SVGText.number(layout.height))
        var elements = [
            """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(width)" height="\(height)" \
            viewBox="0 0 \(width) \(height)" role="img" font-family="\(TimelineStyle.font)" font-size="12" \
            fill="\(TimelineStyle.ink)">
            """,
            "<title>\(SVGText.escaped(title))</title>",
            "<defs>\(TimelineStyle.patterns)</defs>",
            "<rect width=\"\(width)\" height=\"\(height)\" fill=\"#fff\"/>",
        ]
        for part in [heading(), legend(), bands(), grid(), labels(), spans(), marks(), tooltips()] { elements += part }
        elements.append("</svg>\n")
        return elements.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private func text(_ content: String, _ x: Double, _ y: Double, _ attributes: String = "") -> String {
        "<text x=\"\(SVGText.number(x))\" y=\"\(SVGText.number(y))\" \(attributes)>\(SVGText.escaped(content))</text>"
    }

    // MARK: Heading

    private var title: String {
        "\(count(chart.fetches, "fetch")) for \(count(chart.calls, "call")) in \(TimelineAxis.text(chart.duration))"
    }

    private func count(_ number: Int, _ noun: String) -> String {
        "\(SVGText.count(number)) \(noun)\(number == 1 ? "" : noun.hasSuffix("h") ? "es" : "s")"
    }

    private func heading() -> [String] {
        var answers = MarkStyle.all.compactMap { kind -> String? in
            guard case .answered(let source) = kind.moment else { return nil }
            return chart.answers[source].map { "\(SVGText.count($0)) \(kind.name)" }
        }
        if chart.failed > 0 { answers.append("\(SVGText.count(chart.failed)) failed") }
        if chart.cancelled > 0 { answers.append("\(SVGText.count(chart.cancelled)) cancelled") }
        let summary = answers.isEmpty ? "No answers" : "Answers: " + answers.joined(separator: " · ")
        let left = TimelineLayout.margin
        var lines = [
            text(title, left, 36, "font-size=\"20\" font-weight=\"600\""),
            text(summary, left, 58, "font-size=\"13\" fill=\"\(TimelineStyle.quiet)\""),
        ]
        if chart.dropped > 0 {
            let note =
                "The record is full: \(count(chart.dropped, "later event")) \(chart.dropped == 1 ? "is" : "are")"
                + " missing from this picture."
            lines.append(
                text(note, left, 80, "font-size=\"13\" font-weight=\"600\" fill=\"\(TimelineStyle.failure)\""))
        }
        return lines
    }

    // MARK: Legend

    private func legend() -> [String] {
        let phases: [(TimelineChart.Phase, FetchQueue, String)] = [
            (.transferring, .fast, "fast transfer"), (.transferring, .slow, "slow transfer"),
            (.queued, .slow, "waiting for its turn"), (.looking, .fast, "reading the disk"),
            (.paused, .slow, "paused: others go first"), (.parked, .slow, "parked: network, back-off"),
        ]
        let rare: Set<TimelineChart.Moment> = [
            .answered(.revalidated), .answered(.stale), .answered(.shared), .unfinished,
        ]
        let used = Set(chart.rows.lazy.flatMap(\.marks).map(\.moment))
        var elements: [String] = []
        var x = TimelineLayout.margin
        func add(_ name: String, _ sample: SVGPath, width: Double, _ y: Double, _ attributes: String) {
            elements += [sample.element(attributes), text(name, x + width + 7, y + 4)]
            // Approximate, for a text of 12 pixels, in any of the fonts.
            x += width + 7 + Double(name.count) * 6.9 + 22
        }
        for (phase, queue, name) in phases {
            let height = 13 * phase.height + 1
            var sample = SVGPath()
            sample.rectangle(x + 0.5, layout.legendTop - height / 2, 28, height)
            add(name, sample, width: 28, layout.legendTop, phase.attributes(queue))
        }
        x = TimelineLayout.margin
        let y = layout.legendTop + 22
        for kind in kinds where !rare.contains(kind.moment) || used.contains(kind.moment) {
            var sample = SVGPath()
            draw(kind, x + 5, y, height: 8, into: &sample)
            add(kind.name, sample, width: 10, y, attributes(kind))
        }
        return ["<g>\(elements.joined())</g>"]
    }

    // MARK: Bands

    /// The load of both queues over time, and the shade behind the rows while `fastQueue` is busy.
    private func bands() -> [String] {
        let fastHeight = 44.0
        let fastBottom = layout.bandsTop + fastHeight
        let slowHeight = 14.0
        let slowTop = fastBottom + 12
        let busy = levels(.fast, [.queued, .looking, .transferring, .paused])
        let transfers = levels(.fast, [.transferring, .paused])
        let peak = transfers.max() ?? 0
        let fill = "fill=\"\(TimelineStyle.colour(.fast))\""

        let shade = bars(busy, bottom: layout.rowsBottom) { _ in layout.rowsBottom - layout.rowsTop }
        let band = bars(busy, bottom: fastBottom) { _ in fastHeight }
        let fast = bars(transfers, bottom: fastBottom) { fastHeight * Double($0) / Double(peak) }
        var elements = [
            shade.element("class=\"shade\" \(fill) fill-opacity=\"0.07\""),
            band.element("class=\"busy\" \(fill) fill-opacity=\"0.2\""), fast.element("class=\"fast\" \(fill)"),
        ]
        // Each covers those before it.
        let layers: [(TimelineChart.Phase, Set<TimelineChart.Phase>, Double)] = [
            (.queued, [.queued, .looking], 3), (.paused, [.paused], slowHeight),
            (.transferring, [.transferring], slowHeight),
        ]
        for (phase, phases, height) in layers {
            let path = bars(levels(.slow, phases), bottom: slowTop + (slowHeight + height) / 2) { _ in height }
            elements.append(path.element("class=\"band \(phase)\" \(phase.attributes(.slow))"))
        }
        var frame = SVGPath()
        for y in [fastBottom + 0.5, slowTop + slowHeight + 0.5] {
            frame.line(TimelineLayout.left, y, toX: TimelineLayout.left + TimelineLayout.plotWidth, y: y)
        }
        elements.append(frame.element("fill=\"none\" stroke=\"\(TimelineStyle.grid)\""))
        func name(_ content: String, _ y: Double, _ attributes: String) {
            elements.append(text(content, TimelineLayout.left - 13, y, "text-anchor=\"end\" \(attributes)"))
        }
        name("fastQueue", layout.bandsTop + 17, "font-weight=\"600\" fill=\"\(TimelineStyle.text(.fast))\"")
        name(
            peak == 0 ? "no transfers" : "up to \(peak) at a time", layout.bandsTop + 34,
            "font-size=\"11\" fill=\"\(TimelineStyle.quiet)\"")
        name("slowQueue", slowTop + 11, "font-weight=\"600\" fill=\"\(TimelineStyle.text(.slow))\"")
        return elements
    }

    /// Returns the largest number of spans of these kinds at a time, for each column of half a pixel.
    private func levels(_ queue: FetchQueue, _ phases: Set<TimelineChart.Phase>) -> [Int] {
        var edges: [(time: Duration, change: Int)] = []
        for span in chart.rows.lazy.flatMap(\.spans) where span.queue == queue && phases.contains(span.phase) {
            edges.append((span.start, 1))
            edges.append((span.end, -1))
        }
        // At the same time, spans end before others begin.
        edges.sort { ($0.time, $0.change) < ($1.time, $1.change) }
        var levels = [Int](repeating: 0, count: Int(TimelineLayout.plotWidth) * 2)
        var column = 0
        var level = 0
        for edge in edges {
            let next = min(Int((axis.x(edge.time) - TimelineLayout.left) * 2), levels.count - 1)
            while column < next {
                levels[column] = max(levels[column], level)
                column += 1
            }
            level += edge.change
            levels[column] = max(levels[column], level)
        }
        return levels
    }

    private func bars(_ levels: [Int], bottom: Double, height: (Int) -> Double) -> SVGPath {
        let heights = levels.map { $0 > 0 ? height($0) : 0 }
        var path = SVGPath()
        var start = 0
        for column in 1...heights.count where column == heights.count || heights[column] != heights[start] {
            if heights[start] > 0 {
                path.rectangle(
                    TimelineLayout.left + Double(start) / 2, bottom - heights[start], Double(column - start) / 2,
                    heights[start])
            }
            start = column
        }
        return path
    }

    // MARK: Axis

    private func grid() -> [String] {
        var path = SVGPath()
        var labels: [String] = []
        for tick in axis.ticks() {
            path.line(tick.x, layout.rowsTop, toX: tick.x, y: layout.rowsBottom)
            for y in [layout.rowsTop - 8, layout.rowsBottom + 18] {
                labels.append(text(tick.label, tick.x, y, "text-anchor=\"middle\""))
            }
        }
        return [
            path.element("fill=\"none\" stroke=\"\(TimelineStyle.grid)\""),
            "<g font-size=\"11\" fill=\"\(TimelineStyle.quiet)\">\(labels.joined())</g>",
        ]
    }

    /// Draws the names, and for each row a stripe in the colour of the queue in which the row began.
    private func labels() -> [String] {
        var stripes: [FetchQueue: SVGPath] = [:]
        var names: [String] = []
        let gap = layout.isDetailed ? 1.0 : 0
        for (index, row) in chart.rows.enumerated() {
            let y = layout.y(index)
            stripes[row.queue, default: SVGPath()]
                .rectangle(TimelineLayout.left - 7, y + gap, 4, layout.rowHeight - 2 * gap)
            guard layout.isDetailed else { continue }
            let base = y + layout.rowHeight / 2 + 4
            let fill = row.queue == .slow ? "fill=\"\(TimelineStyle.text(.slow))\"" : ""
            if row.queue == .slow { names.append(text("slow", TimelineLayout.margin, base, fill)) }
            let name = SVGText.label(of: redaction.text(row.key), width: 25)
            names.append(text(name, TimelineLayout.left - 13, base, "text-anchor=\"end\" \(fill)"))
        }
        let paths = FetchQueue.allCases.compactMap { queue in
            stripes[queue]?.element("fill=\"\(TimelineStyle.colour(queue))\"")
        }
        return paths + ["<g font-size=\"11\">\(names.joined(separator: "\n"))</g>"]
    }

    // MARK: Rows

    private func spans() -> [String] {
        var paths: [TimelineChart.Phase: [FetchQueue: SVGPath]] = [:]
        for (index, row) in chart.rows.enumerated() {
            for span in row.spans where span.end > span.start {
                let start = axis.x(span.start)
                // A transfer is never too short to be drawn; a wait may be.
                let width = max(axis.x(span.end) - start, span.phase == .transferring ? 1 : 0)
                guard width >= 0.2 else { continue }
                let height = layout.rowHeight * (layout.rowHeight >= 4 ? span.phase.height : 1)
                let y = layout.y(index) + (layout.rowHeight - height) / 2
                paths[span.phase, default: [:]][span.queue, default: SVGPath()].rectangle(start, y, width, height)
            }
        }
        // Queued spans are drawn first, so that they do not cover a short transfer between two waits.
        return TimelineChart.Phase.allCases.flatMap { phase in
            FetchQueue.allCases.compactMap { queue in
                paths[phase]?[queue]?.element("class=\"\(phase) \(queue)\" \(phase.attributes(queue))")
            }
        }
    }

    private func marks() -> [String] {
        kinds.compactMap { kind in
            var path = SVGPath()
            // The mark of an end stands beside the end of the bar, not over it.
            let isEnd = layout.isDetailed && kind.moment != .promoted && kind.moment != .demoted
            let shift = isEnd ? TimelineLayout.markRadius + 2 : 0
            for (index, row) in chart.rows.enumerated() {
                let middle = layout.y(index) + layout.rowHeight / 2
                var last = -Double.infinity
                for mark in row.marks where mark.moment == kind.moment {
                    let x = axis.x(mark.time)
                    // Several callers of one fetch end at once: one mark is enough.
                    if x - last < 1 { continue }
                    last = x
                    draw(kind, x + shift, middle, height: layout.rowHeight, into: &path)
                }
            }
            return path.element("class=\"\(kind.cssClass)\" \(attributes(kind))")
        }
    }

    private func draw(_ kind: MarkStyle, _ x: Double, _ y: Double, height: Double, into path: inout SVGPath) {
        if layout.isDetailed {
            path.polygon(kind.corners, x, y, TimelineLayout.markRadius)
        } else {
            path.rectangle(x, y - height / 2, 2, height)
        }
    }

    private func attributes(_ kind: MarkStyle) -> String {
        layout.isDetailed ? kind.attributes : "fill=\"\(kind.color)\""
    }

    /// Draws areas over the rows that show the whole key and the figures of a row where the pointer rests.
    private func tooltips() -> [String] {
        guard layout.isDetailed else { return [] }
        let rows = chart.rows.enumerated().map { index, row in
            var path = SVGPath()
            path.rectangle(
                TimelineLayout.margin, layout.y(index), TimelineLayout.left + TimelineLayout.plotWidth,
                layout.rowHeight)
            return path.element(title: tooltip(row))
        }
        return ["<g fill=\"none\" pointer-events=\"all\">"] + rows + ["</g>"]
    }

    private func tooltip(_ row: TimelineChart.Row) -> String {
        let key = SVGText.shortened(String(redaction.text(row.key).prefix(4_000)), width: 200)
        let start = TimelineAxis.text(row.start - chart.start)
        guard row.isFetch else { return "\(key): at \(start)" }
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
