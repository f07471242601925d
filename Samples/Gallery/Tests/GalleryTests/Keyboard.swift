import Foundation

/// A keyboard that presses keys on an X display with `xdotool`.
struct Keyboard {
    private let display: String

    init(_ display: String) throws {
        self.display = display
    }

    /// Waits for a window whose title contains this place in the list, and presses keys in it one after the other.
    func press(_ keys: [String], inWindow title: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments =
            ["xdotool", "search", "--sync", "--onlyvisible", "--name", ", \(title) ", "windowfocus", "--sync"]
            + ["key", "--delay", "60"] + keys
        process.environment = GalleryRun.environment(display)
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw XDisplay.Failure(text: "xdotool presses no keys") }
    }
}
