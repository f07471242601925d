import Dispatch
import Foundation
import Synchronization

/// Screenshots of the whole display, taken by ImageMagick's `import`.
final class Screenshots {
    final class Shot: Sendable {
        private let taken = Mutex<String?>(nil)

        /// The file's name: empty if `import` failed, `nil` until it has ended.
        var file: String? { taken.withLock { $0 } }

        fileprivate func end(_ file: String) { taken.withLock { $0 = file } }
    }

    private let folder: URL
    private var count = 0

    init(_ folder: URL) {
        self.folder = folder
    }

    func take() -> Shot {
        let name = "rest-\(count).png"
        count += 1
        let file = folder.appendingPathComponent(name)
        let shot = Shot()
        DispatchQueue.global().async {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["import", "-silent", "-window", "root", file.path]
            do {
                try process.run()
                process.waitUntilExit()
                shot.end(process.terminationStatus == 0 ? name : "")
            } catch {
                shot.end("")
            }
        }
        return shot
    }
}
