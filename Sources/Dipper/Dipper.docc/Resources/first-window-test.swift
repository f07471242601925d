import Dipper
import DipperTesting
import Foundation
import Testing

@testable import Photos

@Suite("The window", .timeLimit(.minutes(1)))
struct PhotoWindowTests {
    @Test("shows placeholders, and then the pictures of the rows on screen") @MainActor
    func rows() async throws {
        let photos = try (0..<20).map { try #require(URL(string: "https://example.org/\($0).jpg")) }
        let transport = ScriptedTransport()
        for photo in photos { try transport.script(photo, [.image(.sample(640, 480), as: .jpeg)]) }
        var configuration = ImageCache.Configuration()
        configuration.data.transport = transport
        configuration.data.networkMonitor = ManualNetwork()
        let cache = ImageCache(configuration)
        // No picture comes before the test has looked.
        cache.fastQueue.isSuspended = true

        let drawings = WatchedState(0)
        let window = PhotoWindow(photos, rows: 3, cache: cache) { drawings.update { $0 += 1 } }
        window.scroll(to: 4)
        #expect(window.views.allSatisfy { $0.image == nil && $0.background == Color(hex: 0xe0e0e0) })

        cache.fastQueue.isSuspended = false
        try await drawings.wait { $0 == 6 }
        #expect(window.views.allSatisfy { $0.image?.size == PixelSize(width: 320, height: 240) })
        try await transport.waitForTransfers(1, of: photos[7])

        cache.fastQueue.isSuspended = true
        window.scroll(to: 18)
        #expect(window.views.allSatisfy { $0.image == nil })
        cache.fastQueue.isSuspended = false
        try await transport.waitForTransfers(1, of: photos[17])
        await cache.shutdown()
    }
}
