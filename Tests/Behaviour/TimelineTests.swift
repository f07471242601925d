import DipperInspector
import FoundationXML
import TestSupport
import Testing

@Suite("The timeline of a cache", .timeLimit(.minutes(2)))
struct TimelineTests {
    /// The texts and the classes of an SVG document; `nil` if it is not well-formed XML.
    private final class Picture: NSObject, XMLParserDelegate {
        var texts: [String] = []
        var classes: Set<String> = []
        private var open = ""

        init?(_ svg: String) {
            super.init()
            let parser = XMLParser(data: Data(svg.utf8))
            parser.delegate = self
            if !parser.parse() { return nil }
        }

        func parser(
            _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
            attributes: [String: String]
        ) {
            if let value = attributes["class"] { classes.insert(value) }
            open = ""
        }

        func parser(_ parser: XMLParser, foundCharacters characters: String) { open += characters }

        func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
            if name == "text" || name == "title" { texts.append(open) }
        }
    }

    private static let steps: [CacheEvent.Kind] = [
        .callBegan(.slow), .queued(.slow), .attemptBegan(.slow), .paused, .queueChanged(.fast), .resumed, .parked,
        .queued(.fast), .attemptBegan(.fast), .callFailed(.timedOut), .callFailed(.cancelled), .fetchEnded,
    ]

    private func timeline(_ keys: [String], limit: Int = 200_000) -> Timeline {
        let timeline = Timeline(limit: limit, redaction: Redaction(secretNames: ["ticket"]))
        for (index, key) in keys.enumerated() {
            for (step, kind) in Self.steps.enumerated() {
                timeline.receive(CacheEvent(time: .milliseconds(index + step * 7), key: CacheKey(key), kind: kind))
            }
        }
        return timeline
    }

    @Test("what happened to a fetch is in the picture, told apart by class, and in its tooltip")
    func classes() throws {
        let picture = try #require(Picture(timeline(["http://host/one.jpg"]).svg()))
        let classes: Set<String> = [
            "queued slow", "transferring slow", "paused slow", "parked fast", "queued fast", "transferring fast",
            "promoted", "failed", "cancelled",
        ]
        #expect(picture.classes.isSuperset(of: classes) && !picture.classes.contains("demoted"))
        #expect(picture.texts.contains("one.jpg"))
        let tooltip =
            "http://host/one.jpg: from 7 ms, 70 ms, queued 14 ms, transferring 35 ms, paused 14 ms, parked 7 ms"
        #expect(picture.texts.contains { $0.hasPrefix(tooltip) && $0.hasSuffix("failed: timed out, cancelled") })
    }

    @Test("names in the picture have no secrets, and leave it well-formed whatever characters they have")
    func names() throws {
        let secret = "https://alice:CANARY@host/a.jpg?token=CANARY&ticket=CANARY&size=2"
        let controls = String(String.UnicodeScalarView((0..<0xA0).compactMap { Unicode.Scalar(UInt32($0)) }))
        let hostile = [
            "http://host/a&b<c>\"d\"'e'.jpg", "]]><script>alert(1)</script>", "<!--", "&#0;&amp;", "", controls,
            "\u{FFFE}\u{FFFF}", "\u{202E}gpj.exe", "http://host/%00%0A%3Cb%3E%FF.jpg", "🐈‍⬛/🏳️‍🌈", "////", "?",
            "a\nheader", String(repeating: "x", count: 10_000), "e" + String(repeating: "\u{301}", count: 1_000),
        ]
        let picture = try #require(Picture(timeline(hostile + [secret]).svg()))
        #expect(picture.texts.contains { $0.contains("a&b<c>\"d\"'e'.jpg") })
        #expect(picture.texts.allSatisfy { $0.unicodeScalars.count < 2_000 && !$0.contains("CANARY") })
        #expect(picture.texts.contains { $0.contains("https://***@host/a.jpg?token=***&ticket=***&size=2") })
    }

    @Test(
        "a picture of any number of fetches is well-formed, and says how many events it lacks", arguments: [0, 1, 500])
    func sizes(fetches: Int) throws {
        let whole = try #require(Picture(timeline((0..<fetches).map { "http://host/\($0).jpg" }).svg()))
        #expect(whole.texts.contains { $0.hasPrefix("\(fetches) fetch") })
        #expect(
            whole.classes.contains("failed") == (fetches > 0) && whole.classes.contains("cancelled") == (fetches > 0))
        let full = try #require(Picture(timeline(["a", "b"], limit: 15).svg()))
        #expect(full.texts.contains("The record is full: 9 later events are missing from this picture."))
    }

    @Test("a timeline records a cache's own events")
    func recorded() async throws {
        let timeline = Timeline()
        let test = TestCache { $0.eventSinks = [timeline] }
        test.transport.script(url("a"), [.body(Data(count: 10))])
        for _ in 0..<3 { _ = try await test.cache.getData(url("a")).value }
        await test.cache.shutdown()
        let picture = try #require(Picture(timeline.svg()))
        #expect(picture.texts.contains { $0.hasPrefix("1 fetch for 3 calls") })
        #expect(picture.texts.contains { $0.contains("2 from memory") })
    }
}
