import CGTK4
import DipperGTK
import GTKTestShims
import Testing
import TestSupport

@Suite("Lists of pictures, and the queue of GTK's loop", .serialized, .timeLimit(.minutes(2)))
@MainActor
struct ListTests {
    private let test = TestImageCache()

    init() throws { try Toolkit.start() }

    nonisolated private static func request(_ row: Int) -> ImageRequest { ImageRequest(string: "https://example.com/\(row).png") }

    private var asked: [Int] {
        test.transport.transfers.compactMap { Int($0.request.url.deletingPathExtension().lastPathComponent) }
    }

    @Test("of ten thousand pictures those on screen are fetched first, in the size that they have there")
    func grid() async throws {
        let file = try Image.sample(300, 240).png
        for row in 0..<10_000 { test.transport.script(Self.request(row).url!, [.body(file)]) }
        let list = PictureList(count: 10_000, cache: test.cache, request: Self.request)
        let view = list.makeGrid(width: 100, height: 80)
        let window = try TestWindow(view, 440, 320)
        defer { window.close() }
        try window.show()
        try window.frame()
        // The cells have some space around their pictures.
        let visible = list.visible
        #expect(visible.lowerBound == 0 && (6...24).contains(visible.count))
        try Toolkit.wait(for: "the pictures on screen") { asked.count >= visible.count }
        #expect(Set(asked.prefix(visible.count)) == Set(visible))
        try Toolkit.idle(test.cache)
        #expect(asked.count < 80)
        let scrolling = try #require(gtk_scrolled_window_get_vadjustment(OpaquePointer(view)))
        gtk_adjustment_set_value(scrolling, gtk_adjustment_get_upper(scrolling))
        try Toolkit.wait(for: "the end of the list") { list.visible.upperBound == 10_000 }
        try Toolkit.wait(for: "the pictures at the end") { Set(asked).isSuperset(of: list.visible) }
        // Nothing of what was passed over.
        #expect(asked.allSatisfy { $0 < 100 || $0 > 9_900 })
    }
}
