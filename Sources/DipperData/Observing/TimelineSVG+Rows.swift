/// The rows: spans, marks and tooltips.
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
