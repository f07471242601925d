import Foundation
import FoundationXML
import Testing

@testable import DipperData

@Suite(.timeLimit(.minutes(5))) struct TimelineTests {
    typealias Kind = CacheEvent.Kind
    typealias Span = TimelineChart.Span

    /// A chart of events given as milliseconds and kinds, all of one key.
    private func chart(_ events: [(Int, Kind)], key: CacheKey = "http://host/a.jpg") -> TimelineChart {
        TimelineChart(events.map { CacheEvent(time: .milliseconds($0.0), key: key, kind: $0.1) })
    }

    private func span(_ phase: TimelineChart.Phase, _ queue: FetchQueue, _ start: Int, _ end: Int) -> Span {
        Span(phase: phase, queue: queue, start: .milliseconds(start), end: .milliseconds(end))
    }

    private func mark(_ moment: TimelineChart.Moment, _ time: Int) -> TimelineChart.Mark {
        TimelineChart.Mark(moment: moment, time: .milliseconds(time))
    }

    // MARK: Rows

    @Test("a fetched job is looked up, waits, transfers, and ends with its answer")
    func fetched() {
        let chart = chart([
            (0, .callBegan(.fast)), (0, .lookUpBegan(.fast)), (2, .queued(.fast)), (5, .attemptBegan(.fast)),
            (25, .callAnswered(.network)), (25, .jobEnded),
        ])
        #expect(chart.rows.count == 1)
        #expect(
            chart.rows.first?.spans == [
                span(.looking, .fast, 0, 2), span(.queued, .fast, 2, 5), span(.transferring, .fast, 5, 25),
            ])
        #expect(chart.rows.first?.marks == [mark(.answered(.network), 25)])
        #expect(chart.rows.first?.isOpen == false)
        #expect((chart.jobs, chart.calls, chart.duration) == (1, 1, .milliseconds(25)))
        #expect(chart.answers == [.network: 1])
    }

    @Test("a slow transfer shows its pauses, also one that was decided before it began")
    func pauses() {
        let chart = chart([
            (0, .queued(.slow)), (1, .lookUpBegan(.slow)), (2, .paused), (3, .attemptBegan(.slow)),
            (10, .resumed),
            (15, .paused), (20, .resumed), (25, .jobEnded),
        ])
        #expect(
            chart.rows.first?.spans == [
                span(.queued, .slow, 0, 1), span(.looking, .slow, 1, 3), span(.paused, .slow, 3, 10),
                span(.transferring, .slow, 10, 15), span(.paused, .slow, 15, 20),
                span(.transferring, .slow, 20, 25),
            ])
    }

    @Test("a promoted transfer goes on in the other queue's colour from there")
    func promotion() {
        let chart = chart([
            (0, .attemptBegan(.slow)), (5, .paused), (7, .queueChanged(.fast)), (7, .resumed), (12, .jobEnded),
        ])
        #expect(
            chart.rows.first?.spans == [
                span(.transferring, .slow, 0, 5), span(.paused, .slow, 5, 7),
                span(.transferring, .fast, 7, 12),
            ])
        #expect(chart.rows.first?.marks == [mark(.promoted, 7)])
        #expect(chart.rows.first?.queue == .slow)
    }

    @Test("a demotion of a waiting job is marked once")
    func demotion() {
        let chart = chart([
            (0, .queued(.fast)), (4, .queueChanged(.slow)), (4, .queued(.slow)), (9, .attemptBegan(.slow)),
            (12, .jobEnded),
        ])
        #expect(
            chart.rows.first?.spans == [
                span(.queued, .fast, 0, 4), span(.queued, .slow, 4, 9), span(.transferring, .slow, 9, 12),
            ])
        #expect(chart.rows.first?.marks == [mark(.demoted, 4)])
    }

    @Test("a parked job has given up its pause when it transfers again")
    func parked() {
        let chart = chart([
            (0, .attemptBegan(.slow)), (2, .paused), (4, .parked), (8, .queued(.slow)),
            (9, .attemptBegan(.slow)),
            (11, .callAnswered(.network)), (11, .jobEnded),
        ])
        #expect(
            chart.rows.first?.spans == [
                span(.transferring, .slow, 0, 2), span(.paused, .slow, 2, 4), span(.parked, .slow, 4, 8),
                span(.queued, .slow, 8, 9), span(.transferring, .slow, 9, 11),
            ])
    }

    @Test("a look at the disk beside a transfer does not hide the transfer")
    func besideTransfer() {
        let chart = chart([(0, .attemptBegan(.fast)), (3, .lookUpBegan(.fast)), (9, .jobEnded)])
        #expect(chart.rows.first?.spans == [span(.transferring, .fast, 0, 9)])
    }

    @Test("each job of a key has a row, and later memory hits are marks on the last one")
    func severalJobs() {
        let chart = chart([
            (0, .callBegan(.fast)), (0, .attemptBegan(.fast)), (4, .callAnswered(.network)), (4, .jobEnded),
            (6, .callBegan(.fast)), (6, .callAnswered(.memory)),
            (10, .callBegan(.slow)), (10, .queued(.slow)), (12, .callAnswered(.disk)), (12, .jobEnded),
            (14, .callBegan(.fast)), (14, .callAnswered(.memory)),
        ])
        #expect(chart.rows.map(\.queue) == [.fast, .slow])
        #expect(chart.rows.first?.marks == [mark(.answered(.network), 4), mark(.answered(.memory), 6)])
        #expect(chart.rows.last?.marks == [mark(.answered(.disk), 12), mark(.answered(.memory), 14)])
        #expect((chart.jobs, chart.calls) == (2, 4))
        #expect(chart.answers == [.network: 1, .disk: 1, .memory: 2])
    }

    @Test("a call that never became a job has a row without spans")
    func noJob() {
        let chart = chart([
            (1, .callBegan(.slow)), (1, .callFailed(.invalidURL)), (3, .callBegan(.slow)), (3, .callAnswered(.memory)),
        ])
        #expect(chart.rows.count == 1)
        #expect(chart.rows.first?.isJob == false)
        #expect(chart.rows.first?.spans == [])
        #expect(chart.rows.first?.marks == [mark(.failed, 1), mark(.answered(.memory), 3)])
        #expect((chart.jobs, chart.failed) == (0, 1))
    }

    @Test("cancelled calls are told apart from failed ones")
    func cancelled() {
        let chart = chart([
            (0, .queued(.fast)), (1, .callFailed(.cancelled)), (2, .callFailed(.status(404))), (2, .jobEnded),
        ])
        #expect(chart.rows.first?.marks == [mark(.cancelled, 1), mark(.failed, 2)])
        #expect((chart.cancelled, chart.failed) == (1, 1))
        #expect(chart.rows.first?.failure == "status 404")
    }

    @Test("a job that goes on is open and reaches to the last event")
    func openJob() {
        let chart = TimelineChart([
            CacheEvent(time: .milliseconds(10), key: "a", kind: .queued(.slow)),
            CacheEvent(time: .milliseconds(30), key: "b", kind: .callBegan(.fast)),
        ])
        #expect(chart.rows.first?.isOpen == true)
        #expect(chart.rows.first?.spans == [span(.queued, .slow, 10, 30)])
        #expect((chart.start, chart.end) == (.milliseconds(10), .milliseconds(30)))
    }

    @Test("events that make no sense alone are passed over")
    func senseless() {
        for kind in [Kind.jobEnded, .resumed, .paused, .queueChanged(.slow)] {
            let chart = chart([(1, kind)])
            #expect(chart.rows.isEmpty, "\(kind)")
        }
        // Times that go back make no span of negative length.
        let chart = chart([(5, .queued(.fast)), (3, .attemptBegan(.fast)), (9, .jobEnded)])
        #expect(chart.rows.first?.spans == [span(.transferring, .fast, 5, 9)])
    }

    @Test("the load counts who waits, moves and is held back at each time")
    func loads() {
        func event(_ time: Int, _ key: CacheKey, _ kind: Kind) -> CacheEvent {
            CacheEvent(time: .milliseconds(time), key: key, kind: kind)
        }
        let loads = TimelineChart([
            event(0, "slow", .attemptBegan(.slow)), event(10, "fast", .lookUpBegan(.fast)),
            event(12, "fast", .attemptBegan(.fast)), event(12, "slow", .paused), event(20, "fast", .jobEnded),
            event(20, "slow", .resumed), event(25, "slow", .jobEnded),
        ]).loads()
        #expect(loads.map(\.isFastBusy) == [false, true, true, false, false])
        #expect(loads.map(\.slowPaused) == [0, 0, 1, 0, 0])
        #expect(loads.map(\.slowTransferring) == [1, 1, 0, 1, 0])
        #expect(loads.map(\.fastTransferring) == [0, 0, 1, 0, 0])
    }

    // MARK: The picture

    /// The elements of a well-formed document; `nil` if it is not one.
    private func elements(_ svg: String) -> SVGElements? {
        let reader = SVGElements()
        let parser = XMLParser(data: Data(svg.utf8))
        parser.delegate = reader
        return parser.parse() ? reader : nil
    }

    private func timeline(_ keys: [String], limit: Int = 200_000) -> Timeline {
        let timeline = Timeline(limit: limit)
        for (index, key) in keys.enumerated() {
            let kinds: [Kind] = [
                .callBegan(.slow), .queued(.slow), .attemptBegan(.slow), .paused, .queueChanged(.fast), .resumed,
                .parked, .queued(.fast), .attemptBegan(.fast), .callFailed(.timedOut), .jobEnded,
            ]
            for (step, kind) in kinds.enumerated() {
                timeline.receive(
                    CacheEvent(time: .milliseconds(index + step * 7), key: CacheKey(key), kind: kind))
            }
        }
        return timeline
    }

    @Test("a picture without events is well-formed")
    func empty() throws {
        let picture = try #require(elements(Timeline().svg()))
        #expect(picture.text.contains("0 jobs for 0 calls in 0 µs"))
    }

    @Test("keys with any characters at all leave the picture well-formed")
    func hostileKeys() throws {
        let allControls = String(
            String.UnicodeScalarView((0..<0xA0).compactMap { Unicode.Scalar(UInt32($0)) }))
        let hostile = [
            "http://host/a&b<c>\"d\"'e'.jpg", "]]><script>alert(1)</script>", "<!--", "&#0;&amp;", "",
            "\u{0}\u{1}\u{B}\u{1F}\u{7F}\u{85}", allControls, "\u{FFFE}\u{FFFF}", "\u{202E}gpj.exe",
            "http://host/%00%0A%3Cb%3E%FF.jpg", "http://host/日本語/写真.jpg", "🐈‍⬛/🏳️‍🌈", "////", "?", "a\nheader",
            String(repeating: "x", count: 100_000), "e" + String(repeating: "\u{301}", count: 10_000),
        ]
        let picture = try #require(elements(timeline(hostile).svg()))
        #expect(picture.count["script"] == nil)
        #expect(picture.text.contains { $0.contains("a&b<c>\"d\"'e'.jpg") })
        #expect(picture.text.allSatisfy { $0.unicodeScalars.count < 2_000 })
    }

    @Test("what happened is in the picture, told apart by class")
    func classes() throws {
        let picture = try #require(elements(timeline(["http://host/one.jpg"]).svg()))
        for name in [
            "queued slow", "transferring slow", "paused slow", "parked fast", "queued fast",
            "transferring fast",
            "promoted", "failed", "shade", "busy",
        ] {
            #expect(picture.paths[name] != nil, "\(name)")
        }
        #expect(picture.paths["demoted"] == nil)
        #expect(picture.text.contains("one.jpg"))
        #expect(picture.text.contains("slow"))
        #expect(
            picture.text.contains(
                "http://host/one.jpg: from 7 ms, 63 ms, queued 14 ms, transferring 28 ms, paused 14 ms, parked 7 ms, "
                    + "failed: timed out"))
    }

    @Test("work too short to be seen does not make fastQueue look busy for longer")
    func shortWork() throws {
        let timeline = Timeline()
        for (time, kind) in [(0, Kind.lookUpBegan(.fast)), (20, .jobEnded), (5_000_000, .callAnswered(.memory))] {
            timeline.receive(CacheEvent(time: .microseconds(time), key: "http://host/a.jpg", kind: kind))
        }
        let busy = try #require(elements(timeline.svg())?.paths["busy"])
        #expect(busy.contains("h0v"))
    }

    @Test(
        "a picture of any number of jobs is at most 6,000 high",
        arguments: [1, 80, 81, 400, 401, 2_000, 2_001, 5_600, 20_000])
    func height(jobs: Int) throws {
        let svg = timeline((0..<jobs).map { "http://host/\($0).jpg" }).svg()
        let height = try #require(elements(svg)?.height)
        #expect(height < 6_000)
        #expect(height > 200)
        #expect(svg.contains(">0.jpg<") == (jobs <= 400))
        #expect(svg.utf8.count < 1_000 * jobs + 10_000)
    }

    @Test("past the limit events are counted, and the picture says so")
    func limit() throws {
        let timeline = timeline(["a", "b"], limit: 15)
        let picture = try #require(elements(timeline.svg()))
        #expect(picture.text.contains("The record is full: 7 later events are missing from this picture."))
    }

    @Test("a timeline takes events from many threads at a time")
    func threads() async throws {
        let timeline = Timeline()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    for step in 0..<100 {
                        timeline.receive(
                            CacheEvent(
                                time: .milliseconds(step), key: CacheKey("\(number)/\(step)"),
                                kind: .callAnswered(.memory)))
                    }
                }
            }
        }
        #expect(try #require(elements(timeline.svg())).text.contains("Answers: 800 from memory"))
    }

    // MARK: Its parts

    @Test(
        "ticks are round and few",
        arguments: [
            (Duration.microseconds(700), "100 µs", "700 µs"), (.milliseconds(47), "5 ms", "45 ms"),
            (.milliseconds(1_999), "200 ms", "1800 ms"), (.seconds(4), "0.5 s", "4 s"),
            (.seconds(95), "10 s", "90 s"),
            (.seconds(3_600), "10 min", "60 min"), (.seconds(36_000), "1 h", "10 h"),
        ])
    func ticks(duration: Duration, second: String, last: String) {
        let ticks = TimelineAxis(start: .seconds(7), end: .seconds(7) + duration, left: 100, width: 1_000)
            .ticks()
        #expect(ticks.first?.x == 100)
        #expect(ticks.dropFirst().first?.label == second)
        #expect(ticks.last?.label == last)
        #expect((4...11).contains(ticks.count))
        #expect(ticks.allSatisfy { $0.x <= 1_100.001 })
    }

    @Test(
        "a row is named by the last part of its URL",
        arguments: [
            ("http://host/photos/cat.jpg?row=17", "cat.jpg?row=17"), ("http://host/photos/", "photos"),
            ("http://host", "host"), ("http://host/a%20b.jpg", "a b.jpg"),
            ("http://host/a?next=http://other/", "a?next=http://other/"),
            ("my own key", "my own key"), ("http://host/a\n6:accept4:text", "a"), ("", ""), ("///", "///"),
            ("http://host/a-very-long-name-of-a-picture.jpg?row=12345", "a-very-long-nam…row=12345"),
        ])
    func labels(key: String, label: String) {
        #expect(SVGText.label(of: Redaction.standard.text(key), width: 25) == label)
    }

    @Test("numbers are written short")
    func numbers() {
        #expect(
            [0, 1, -1, 0.5, 0.05, 12.345, -0.126, 1_280].map(SVGText.number) == [
                "0", "1", "-1", "0.5", "0.05", "12.35", "-0.13", "1280",
            ])
        #expect([0, 999, 1_000, 1_234_567].map(SVGText.count) == ["0", "999", "1,000", "1,234,567"])
    }
}

/// The elements, texts and shapes of an SVG picture.
private final class SVGElements: NSObject, XMLParserDelegate {
    var count: [String: Int] = [:]
    var text: [String] = []
    /// The shapes of each class.
    var paths: [String: String] = [:]
    var height: Double?
    private var open = ""

    func parser(
        _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
        attributes: [String: String]
    ) {
        count[name, default: 0] += 1
        if let value = attributes["class"] { paths[value] = attributes["d"] }
        if name == "svg" { height = attributes["height"].flatMap(Double.init) }
        open = ""
    }

    func parser(_ parser: XMLParser, foundCharacters characters: String) { open += characters }

    func parser(
        _ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?
    ) {
        if name == "text" || name == "title" { text.append(open) }
        open = ""
    }
}
