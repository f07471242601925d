import Dipper
import DipperGTK
import Foundation
import GalleryWindow
import SampleServer
import Testing

@Suite("The gallery in a window", .serialized, .timeLimit(.minutes(2)))
@MainActor
struct GalleryTests {
    private static func complaint(_ arguments: [String]) throws -> (text: String, status: Int32) {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent().appendingPathComponent("Gallery")
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasSuffix("DISPLAY") }
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (String(decoding: text, as: UTF8.self), process.terminationStatus)
    }

    @Test("without a display it says so, and a wrong option is named")
    func complaints() throws {
        let (display, noDisplay) = try Self.complaint([])
        #expect(noDisplay == 3 && display.contains("there is no display"))
        let (option, wrongOption) = try Self.complaint(["--photographs", "7"])
        #expect(wrongOption == 2 && option.contains("There is no option --photographs"))
    }

    @Test("what is on screen is there, in its place, and was asked for before all else")
    func scrolling() async throws {
        let screen = try Screen(count: 3_000, pace: Pace(delay: .milliseconds(40), bytesPerSecond: 1e6))
        try screen.rest()
        try expectPictures(screen)
        let (before, first) = (screen.server.log.count, screen.window.list.visible)
        // A fling.
        for step in 0..<40 { try screen.scroll(pages: 1.5 - Double(step) / 27) }
        let stop = ContinuousClock.now
        try screen.rest()
        try expectPictures(screen)
        let visible = screen.window.list.visible
        let passed = visible.lowerBound - first.upperBound
        #expect(passed > 200)
        let wanted = Set(visible.map(screen.photographs.uri))
        let asked = screen.server.log.entries.dropFirst(before)
        // Most of what flew past was not asked for.
        #expect(asked.count { $0.time < stop && !wanted.contains($0.uri) } * 2 < passed)
        // At rest, those on screen come before the prefetches, and nothing comes twice.
        let atRest = asked.filter { $0.time >= stop }
        let last = try #require(atRest.lastIndex { wanted.contains($0.uri) })
        let queues = screen.cache.data
        let slots = queues.fastQueue.maxConcurrent + queues.slowQueue.maxConcurrent
        #expect(atRest[...last].count { !wanted.contains($0.uri) } <= slots)
        #expect(Set(asked.map(\.uri)).count == asked.count)
        await screen.end()
    }

    private func expectPictures(_ screen: Screen) throws {
        let screenshot = try screen.screenshot()
        #expect(screenshot.size == PixelSize(width: 1_100, height: 760))
        let places = screen.places()
        #expect(places.count >= 12)
        for place in places {
            let url = screen.server.url.absoluteString + screen.photographs.uri(of: place.row)
            let size = TargetSize(width: place.width, height: place.height, .fill)
            let request = ImageRequest(string: url).processed(by: .resize(to: size))
            #expect(screen.cache.imageInMemory(for: request) != nil, "\(place)")
            guard let difference = try screen.difference(place, in: screenshot) else { continue }
            #expect(difference < 16, "photograph \(place.row) at \(place.x), \(place.y)")
        }
    }

    @Test("one of the first pictures moves")
    func motion() async throws {
        let screen = try Screen(count: 100, pace: Pace(delay: .zero, bytesPerSecond: 5e7))
        try screen.rest()
        let place = try #require(screen.places().first { $0.row == 6 })
        func pixels() throws -> [SIMD4<UInt8>] {
            let screenshot = try screen.screenshot()
            return (20..<100).map { screenshot[place.x + $0, place.y + $0] }
        }
        let first = try pixels()
        try screen.wait(for: "another frame") { try pixels() != first }
        await screen.end()
    }

    @Test("keys alone move through the whole list, open a photograph, and go back")
    func keys() async throws {
        let screen = try Screen(count: 1_000, pace: Pace(delay: .zero, bytesPerSecond: 5e7))
        try screen.rest()
        try screen.press("Down", "End", "Left", "Left", "Return")
        try screen.wait(for: "the photograph") { screen.window.row != nil }
        #expect(screen.window.row == 997)
        try screen.press("Right", "Right", "Right", "Left")
        try screen.wait(for: "the photograph before") { screen.window.row == 998 }
        try screen.press("Escape")
        try screen.wait(for: "all photographs") { screen.window.row == nil }
        // The window is gone before the key is released.
        try? screen.press("q")
        try screen.wait(for: "the end") { g_list_model_get_n_items(gtk_window_get_toplevels()) == 0 }
        await screen.end()
    }
}
