import Dipper
import Foundation
import Testing

import Gallery

@Suite("The gallery in a window", .serialized, .timeLimit(.minutes(5)))
struct GalleryTests {
    private static let size = (width: 1_100, height: 760)

    @Test("without a display it says so")
    func withoutDisplay() throws {
        let (text, status) = try GalleryRun.complaint([])
        #expect(status == 3)
        #expect(text.contains("there is no display"))
    }

    @Test("a wrong option is named")
    func wrongOption() throws {
        let (text, status) = try GalleryRun.complaint(["--photographs", "7"])
        #expect(status == 2)
        #expect(text.contains("There is no option --photographs"))
    }

    @Test("what is on screen is there, in its place, and was asked for before all else")
    func scrolling() throws {
        let display = try XDisplay(width: Self.size.width, height: Self.size.height)
        let run = try GalleryRun(
            ["--rows", "600", "--scroll-for", "12", "--delay", "60", "--rate", "0.6"], on: display.name,
            folder: "scrolling")
        try run.addScreenshots()
        try run.start()
        #expect(run.end() == 0)
        let report = try run.readReport()
        #expect(!report.rests.contains { $0.screenshot == "" }, "ImageMagick's import failed")
        let rests = report.rests.filter { $0.screenshot?.isEmpty == false }
        try #require(rests.count >= 3)
        try expectPictures(run, rests)
        expectOrder(report)
        expectRestraint(report)
        expectMotion(report)
    }

    /// Expects every wholly visible photograph at its place in the screenshot.
    private func expectPictures(_ run: GalleryRun, _ rests: [Report.Rest]) throws {
        var photos = try Photos()
        for rest in rests {
            let screenshot = try run.screenshot(rest.screenshot ?? "")
            #expect(screenshot.size == PixelSize(width: Self.size.width, height: Self.size.height))
            var seen = 0
            for place in rest.places {
                // Photographs cut by the edges of the list are left out; the status line is at most 60 pixels high.
                guard place.y >= 0, place.y + place.height < Double(Self.size.height - 60),
                    let wanted = try photos.patches(of: place.uri)
                else { continue }
                let shown = Photos.patches(
                    of: screenshot, x: place.x, y: place.y, width: place.width, height: place.height)
                let difference = Photos.difference(wanted, shown)
                #expect(difference < 6, "\(place.uri) in \(rest.screenshot ?? "")")
                seen += 1
            }
            #expect(seen >= 8)
        }
    }

    /// Expects that, from the start of a rest until the last visible photograph is requested, the server gets no other
    /// requests than those that were already running.
    private func expectOrder(_ report: Report) {
        for rest in report.rests {
            let visible = Set(rest.places.map(\.uri))
            let after = report.requests.filter { (rest.start...rest.end).contains($0.milliseconds) }
            guard let last = after.lastIndex(where: { visible.contains($0.uri) }) else { continue }
            let others = after[...last].filter { !visible.contains($0.uri) }
            #expect(others.count <= report.slots, "at rest on \(rest.first)...\(rest.last)")
        }
    }

    /// Expects that a fling does not request most of the photographs it passes, and that a rest requests none twice.
    private func expectRestraint(_ report: Report) {
        for (one, next) in zip(report.rests, report.rests.dropFirst()) where next.first - one.last > 200 {
            let passed = next.first - one.last
            let visible = Set(next.places.map(\.uri))
            let asked = report.requests.filter { (one.end...next.start).contains($0.milliseconds) }
            let others = asked.filter { !visible.contains($0.uri) }
            #expect(others.count * 2 < passed, "from \(one.last) to \(next.first)")
        }
        for rest in report.rests {
            let visible = Set(rest.places.map(\.uri))
            let asked = report.requests.filter {
                (rest.start...rest.end).contains($0.milliseconds) && visible.contains($0.uri)
            }
            #expect(Set(asked.map(\.uri)).count == asked.count, "at rest nothing is asked for twice")
        }
    }

    private func expectMotion(_ report: Report) {
        let films = report.rests.flatMap(\.places).filter { $0.uri.hasPrefix("/film.gif") }
        #expect(!films.isEmpty)
        #expect(films.contains { $0.frames > 0 })
    }

    @Test("keys alone move through the whole list")
    func keys() throws {
        let display = try XDisplay(width: Self.size.width, height: Self.size.height)
        let keys = try Keyboard(display.name)
        let run = try GalleryRun(["--count", "1000", "--rate", "50"], on: display.name, folder: "keys")
        try run.start()
        try keys.press(["End", "Up", "Left", "Left"], inWindow: "1 of 1000")
        try keys.press(["q"], inWindow: "993 of 1000")
        #expect(run.end() == 0)
        let report = try run.readReport()
        // The grid has five columns: the keys go from the last photograph up one row and two to the left.
        #expect(report.columns == 5)
        #expect(report.cursor == 992)
        #expect((report.first...report.last).contains(992))
    }
}
