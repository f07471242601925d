import CGTK4
import DipperGTK
import GTKTestShims
import Testing
import TestSupport

@Suite("The widget DipperPicture", .serialized, .timeLimit(.minutes(2)))
@MainActor
struct PictureTests {
    private let test = TestImageCache()
    private let a = URL(string: "https://example.com/a.png")!
    private let red = Image.filled(with: .red, 400, 200)

    private func load(_ picture: DipperPicture) throws {
        try Toolkit.wait(for: "a picture") { !picture.isLoading }
        #expect(picture.error == nil)
    }

    @Test("shows the picture where it fits, decoded in the size of the widget")
    func fitting() async throws {
        try Toolkit.start()
        test.transport.script(a, [try .image(red)])
        let picture = DipperPicture(a, cache: test.cache)
        let window = try TestWindow(picture.widget)
        try window.show()
        try load(picture)
        try window.wait(for: .red, at: 100, 80)
        // 200 × 160 with a picture of 2 : 1.
        let pixels = try window.pixels(of: picture.widget)
        #expect(pixels[100, 31] == red[0, 0] && pixels[100, 28].w == 0 && pixels[0, 80] == red[0, 0])
        let small = ImageRequest(a).processed(by: .resize(to: TargetSize(width: 200, height: 160)))
        #expect(test.cache.hasImage(for: small, in: .memory))
        window.close()
    }
}
