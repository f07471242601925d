import Dipper
import Foundation
import Synchronization

// What the code of the guides is surrounded by in a program: it notes what it is told.

/// A place on the screen.
final class Stage: Sendable {
    private let shownImages = Mutex<[Image]>([])
    private let notedTexts = Mutex<[String]>([])
    private let shownURL = Mutex<URL?>(nil)

    var images: [Image] { shownImages.withLock { $0 } }
    var texts: [String] { notedTexts.withLock { $0 } }

    var url: URL? {
        get { shownURL.withLock { $0 } }
        set { shownURL.withLock { $0 = newValue } }
    }

    func show(_ image: Image) { shownImages.withLock { $0.append(image) } }
    func show(_ image: Image, for duration: Duration) async throws { show(image) }
    func show(_ text: String) { notedTexts.withLock { $0.append(text) } }
    func show(_ error: DipperError, _ how: String = "") { show("\(error.shortDescription) \(how)") }
    func set(_ fraction: Double) { show("\(fraction)") }
    func start() { show("started") }
    func hide() { show("hidden") }

    func draw(_ bytes: UnsafeRawBufferPointer, width: Int, height: Int, stride: Int) {
        show("\(width)x\(height) \(stride) \(bytes.count)")
    }
}

/// A program's loop.
struct Loop: Sendable {
    func runWhenIdle(_ work: @escaping @Sendable () -> Void) { work() }
}

/// Someone who is signed in.
struct Session: Sendable {
    let account = "account 7"

    func token(renewing: Bool) async -> String { "token" }
}
