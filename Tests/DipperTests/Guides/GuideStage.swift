import TestSupport

// What the code of the guides is surrounded by in a program: it notes what it is told.

/// The caches that the examples call `ImageCache.shared` and `DataCache.shared`: those of the test that runs them, so
/// that no test changes the caches that all share.
enum SharedCaches {
    enum ImageCache { @TaskLocal static var shared = Dipper.ImageCache() }
    enum DataCache { @TaskLocal static var shared = DipperData.DataCache() }
}

final class Stage: Sendable {
    let shown = Box<[Image]>([])
    let noted = Box<[String]>([])
    private let shownURL = Box<URL?>(nil)

    var images: [Image] { shown.value }
    var texts: [String] { noted.value }

    var url: URL? {
        get { shownURL.value }
        set { shownURL.update { $0 = newValue } }
    }

    func show(_ image: Image) { shown.update { $0.append(image) } }
    func show(_ image: Image, for duration: Duration) async throws { show(image) }
    func show(_ text: String) { noted.update { $0.append(text) } }
    func show(_ error: DipperError, _ how: String = "") { show("\(error.shortDescription) \(how)") }
    func set(_ fraction: Double) { show("\(fraction)") }
    func start() { show("started") }
    func hide() { show("hidden") }

    func draw(_ bytes: UnsafeRawBufferPointer, width: Int, height: Int, stride: Int) {
        show("\(width)x\(height) \(stride) \(bytes.count)")
    }
}

struct Loop: Sendable {
    func runWhenIdle(_ work: @escaping @Sendable () -> Void) { work() }
}

struct Session: Sendable {
    let account = "account 7"

    func token(renewing: Bool) async -> String { "token" }
}
