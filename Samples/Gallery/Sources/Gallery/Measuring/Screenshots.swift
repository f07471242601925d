import Dispatch
import Foundation

/// Pictures of the whole display, taken from outside by `import` of ImageMagick.
final class Screenshots {
    private let folder: URL
    private var count = 0

    init(_ folder: URL) {
        self.folder = folder
    }

    /// - Parameter body: called in the loop of the user interface with the file's name; empty if there is none.
    func take(_ body: @escaping (String) -> Void) {
        let name = "rest-\(count).png"
        count += 1
        let file = folder.appendingPathComponent(name)
        // Comes back to the thread that it was made on.
        nonisolated(unsafe) let body = body
        DispatchQueue.global().async {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["import", "-silent", "-window", "root", file.path]
            let isDone: Bool
            do {
                try process.run()
                process.waitUntilExit()
                isDone = process.terminationStatus == 0
            } catch {
                isDone = false
            }
            MainLoop.shared.add { body(isDone ? name : "") }
        }
    }
}
