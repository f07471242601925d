import DipperData

extension TimelineSVG {
    // MARK: Legend

    func legend() -> String {
        let phases: [(TimelineChart.Phase, FetchQueue, String)] = [
            (.transferring, .fast, "fast transfer"), (.transferring, .slow, "slow transfer"),
            (.queued, .slow, "waiting for its turn"), (.looking, .fast, "reading the disk"),
            (.paused, .slow, "paused: others go first"), (.parked, .slow, "parked: network, back-off"),
        ]
        var x = TimelineLayout.margin
        var elements: [String] = []
        for (phase, queue, name) in phases {
            let height = 13 * TimelineStyle.height(phase) + 1
            var path = SVGPath()
            path.rectangle(x + 0.5, layout.legendTop - height / 2, 28, height)
            elements.append("<path d=\"\(path.text)\" \(TimelineStyle.attributes(phase, queue))/>")
            elements.append(text(name, x + 35, layout.legendTop + 4))
            x += 35 + Self.width(name) + 22
        }
        x = TimelineLayout.margin + 4
        func add(_ name: String, _ attributes: String, _ draw: (Double, Double, inout SVGPath) -> Void) {
            var path = SVGPath()
            draw(x, layout.legendTop + 22, &path)
            elements.append("<path d=\"\(path.text)\" \(attributes)/>")
            elements.append(text(name, x + 12, layout.legendTop + 26))
            x += 12 + Self.width(name) + 22
        }
        guard layout.showsShapes else {
            add("from memory or disk", "fill=\"\(TimelineStyle.ink)\"") { $2.rectangle($0 - 1, $1 - 4, 2, 8) }
            for moment in [TimelineChart.Moment.cancelled, .failed] {
                add(TimelineStyle.name(moment), "fill=\"\(TimelineStyle.colour(moment))\"") {
                    $2.rectangle($0 - 1, $1 - 4, 2, 8)
                }
            }
            return group(elements)
        }
        let always: Set<TimelineChart.Moment> = [
            .promoted, .demoted, .answered(.network), .answered(.disk), .answered(.memory), .cancelled,
            .failed,
        ]
        let used = Set(chart.rows.lazy.flatMap(\.marks).map(\.moment))
        for moment in Self.momentsInOrder where always.contains(moment) || used.contains(moment) {
            add(TimelineStyle.name(moment), TimelineStyle.attributes(moment)) {
                TimelineStyle.draw(moment, $0, $1, 4.6, into: &$2)
            }
        }
        if chart.rows.contains(where: \.isOpen) {
            add("not ended", TimelineStyle.openAttributes) {
                TimelineStyle.drawOpen($0 - 2, $1, 4.6, into: &$2)
            }
        }
        return group(elements)
    }

    private func group(_ elements: [String]) -> String {
        "<g font-size=\"12\" fill=\"\(TimelineStyle.ink)\">\(elements.joined())</g>"
    }

    /// Approximate, for a text of 12 pixels, in any of the fonts.
    private static func width(_ text: String) -> Double { Double(text.count) * 6.9 }

    // MARK: Bands

    /// The load of both queues over time, and the shade behind the rows while `fastQueue` is busy.
    func bands(_ loads: [TimelineChart.Load]) -> String {
        let columns = Column.columns(loads, axis)
        let fastTop = layout.bandsTop
        let fastHeight = 44.0
        let slowTop = fastTop + fastHeight + 12
        let slowHeight = 14.0
        let peak = loads.map(\.fastTransferring).max() ?? 0

        var busy = SVGPath()
        var shade = SVGPath()
        for run in Column.runs(columns, { $0.isFastBusy }) where run.value {
            busy.rectangle(run.x, fastTop, run.width, fastHeight)
            shade.rectangle(run.x, layout.rowsTop, run.width, layout.rowsBottom - layout.rowsTop)
        }
        var fast = SVGPath()
        for run in Column.runs(columns, { $0.fastTransferring }) where run.value > 0 {
            let height = fastHeight * Double(run.value) / Double(peak)
            fast.rectangle(run.x, fastTop + fastHeight - height, run.width, height)
        }
        var slow: [TimelineChart.Phase: SVGPath] = [:]
        for run in Column.runs(columns, { $0.slowPhase }) {
            guard let phase = run.value else { continue }
            let height = phase == .queued ? 3 : slowHeight
            slow[phase, default: SVGPath()]
                .rectangle(run.x, slowTop + (slowHeight - height) / 2, run.width, height)
        }
        func path(_ name: String, _ path: SVGPath?, _ attributes: String) -> String {
            guard let path, !path.isEmpty else { return "" }
            return "<path class=\"\(name)\" d=\"\(path.text)\" \(attributes)/>"
        }
        let right = TimelineLayout.left - 13
        var frame = SVGPath()
        for y in [fastTop + fastHeight, slowTop + slowHeight] {
            frame.line(
                TimelineLayout.left, y + 0.5, toX: TimelineLayout.left + TimelineLayout.plotWidth, y: y + 0.5)
        }
        return [
            path("shade", shade, "fill=\"\(TimelineStyle.colour(.fast))\" fill-opacity=\"0.07\""),
            path("busy", busy, "fill=\"\(TimelineStyle.colour(.fast))\" fill-opacity=\"0.2\""),
            path("fast", fast, TimelineStyle.attributes(.transferring, .fast)),
            path("waiting", slow[.queued], TimelineStyle.attributes(.queued, .slow)),
            path("moving", slow[.transferring], TimelineStyle.attributes(.transferring, .slow)),
            path("held", slow[.paused], TimelineStyle.attributes(.paused, .slow)),
            path("frame", frame, "fill=\"none\" stroke=\"\(TimelineStyle.grid)\""),
            text(
                "fastQueue", right, fastTop + 17,
                "text-anchor=\"end\" font-weight=\"600\" fill=\"\(TimelineStyle.text(.fast))\""),
            text(
                peak == 0 ? "no transfers" : "up to \(peak) at a time", right, fastTop + 34,
                "text-anchor=\"end\" font-size=\"11\" fill=\"\(TimelineStyle.quiet)\""),
            text(
                "slowQueue", right, slowTop + 11,
                "text-anchor=\"end\" font-weight=\"600\" fill=\"\(TimelineStyle.text(.slow))\""),
        ].filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private struct Column {
        var x: Double
        var width: Double
        var load: TimelineChart.Load

        /// One column for each load. Loads too short to be seen are merged with each other; of each count the highest
        /// stays.
        static func columns(_ loads: [TimelineChart.Load], _ axis: TimelineAxis) -> [Column] {
            var columns: [Column] = []
            let end = axis.left + axis.width
            for (index, load) in loads.enumerated() {
                let x = axis.x(load.time)
                let next = index + 1 < loads.count ? axis.x(loads[index + 1].time) : end
                guard next > x else { continue }
                if let last = columns.last, last.width < 0.5, next - x < 0.5 {
                    columns[columns.count - 1].width = next - last.x
                    columns[columns.count - 1].load.merge(load)
                } else {
                    columns.append(Column(x: x, width: next - x, load: load))
                }
            }
            return columns
        }

        static func runs<Value: Equatable>(
            _ columns: [Column], _ value: (TimelineChart.Load) -> Value
        ) -> [(x: Double, width: Double, value: Value)] {
            var runs: [(x: Double, width: Double, value: Value)] = []
            for column in columns {
                let value = value(column.load)
                if let last = runs.last, last.value == value {
                    runs[runs.count - 1].width = column.x + column.width - last.x
                } else {
                    runs.append((column.x, column.width, value))
                }
            }
            return runs
        }
    }
}

extension TimelineChart.Load {
    /// The phase that represents `slowQueue` as a whole; `nil` if it has no work.
    fileprivate var slowPhase: TimelineChart.Phase? {
        if slowTransferring > 0 { return .transferring }
        if slowPaused > 0 { return .paused }
        return slowWaiting > 0 ? .queued : nil
    }

    fileprivate mutating func merge(_ other: Self) {
        fastWaiting = max(fastWaiting, other.fastWaiting)
        fastTransferring = max(fastTransferring, other.fastTransferring)
        slowWaiting = max(slowWaiting, other.slowWaiting)
        slowTransferring = max(slowTransferring, other.slowTransferring)
        slowPaused = max(slowPaused, other.slowPaused)
    }
}
