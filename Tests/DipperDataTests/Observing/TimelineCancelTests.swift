import Foundation
import Testing

@testable import DipperData

@Suite("A timeline tells cancelled calls from failed ones", .timeLimit(.minutes(5)))
struct TimelineCancelTests {
    private func timeline(_ ends: [CacheEvent.Kind], jobs: Int = 1) -> Timeline {
        let timeline = Timeline()
        for job in 0..<jobs {
            let kinds: [CacheEvent.Kind] = [.callBegan(.fast), .attemptBegan(.fast)] + ends + [.jobEnded]
            for (step, kind) in kinds.enumerated() {
                timeline.receive(
                    CacheEvent(time: .milliseconds(job + step * 7), key: CacheKey("http://host/\(job).jpg"), kind: kind)
                )
            }
        }
        return timeline
    }

    @Test("the marks differ in shape and colour, and the legend has both")
    func marks() {
        let radius = 4.0
        var (cancelled, failed) = (SVGPath(), SVGPath())
        TimelineStyle.draw(.cancelled, 10, 10, radius, into: &cancelled)
        TimelineStyle.draw(.failed, 10, 10, radius, into: &failed)
        #expect(cancelled.text != failed.text)
        #expect(TimelineStyle.attributes(.cancelled) != TimelineStyle.attributes(.failed))
        let svg = timeline([.callFailed(.status(404))]).svg()
        #expect(svg.contains(">cancelled</text>") && svg.contains(">failed</text>"))
        #expect(svg.contains("class=\"failed\"") && !svg.contains("class=\"cancelled\""))
        #expect(timeline([.callFailed(.cancelled)]).svg().contains("class=\"cancelled\""))
    }

    @Test("a picture of too many jobs for shapes shows both, in colours of their own, and so does its legend")
    func manyJobs() {
        let svg = timeline([.callFailed(.cancelled), .callFailed(.timedOut)], jobs: 500).svg()
        #expect(svg.contains("fill=\"\(TimelineStyle.taken)\"") && svg.contains("fill=\"\(TimelineStyle.failure)\""))
        #expect(svg.contains("class=\"cancelled\"") && svg.contains("class=\"failed\""))
        #expect(svg.contains(">cancelled</text>") && svg.contains(">failed</text>"))
    }

    @Test("a row's tooltip says how it failed, and how many of its calls were cancelled, whichever came last")
    func tooltip() {
        let failed = timeline([.callFailed(.status(404)), .callFailed(.cancelled)]).svg()
        #expect(failed.contains("failed: status 404, cancelled</title>"))
        let cancelled = timeline([.callFailed(.cancelled), .callFailed(.cancelled)]).svg()
        #expect(cancelled.contains("2 calls cancelled</title>") && !cancelled.contains("failed:"))
    }

    @Test("rows and tooltips have no secrets")
    func secrets() {
        let timeline = Timeline(redaction: Redaction(secretNames: ["ticket"]))
        let key: CacheKey = "https://alice:CANARY@host/a.jpg?token=CANARY&ticket=CANARY&size=2"
        timeline.receive(CacheEvent(time: .zero, key: key, kind: .queued(.fast)))
        timeline.receive(CacheEvent(time: .milliseconds(2), key: key, kind: .jobEnded))
        let svg = timeline.svg()
        #expect(!svg.contains("CANARY"))
        #expect(svg.contains("https://***@host/a.jpg?token=***&amp;ticket=***&amp;size=2"))
    }
}
