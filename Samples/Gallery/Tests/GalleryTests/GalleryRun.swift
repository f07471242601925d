import Dipper
import Foundation

import Gallery

/// A run of the gallery in a process of its own.
final class GalleryRun {
    private static let products =
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()

    let folder: URL
    private let process = Process()

    /// - Parameter folder: The name of the run's folder, which is kept after the test for inspection.
    init(_ arguments: [String], on display: String?, folder name: String) throws {
        folder = Self.products.appendingPathComponent("gallery-test/\(name)", isDirectory: true)
        try? FileManager.default.removeItem(at: folder)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        process.executableURL = Self.products.appendingPathComponent("Gallery")
        process.arguments = arguments + ["--report", report.path]
        process.environment = Self.environment(display)
    }

    private var report: URL { folder.appendingPathComponent("report.json") }

    /// Returns an environment without the desktop that the test may run on, and without services on its bus.
    static func environment(_ display: String?) -> [String: String] {
        var environment = ProcessInfo.processInfo.environment
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"] { environment[name] = nil }
        environment["DISPLAY"] = display
        environment["GDK_BACKEND"] = "x11"
        environment["GSK_RENDERER"] = "cairo"
        environment["GTK_A11Y"] = "none"
        environment["GSETTINGS_BACKEND"] = "memory"
        environment["GIO_USE_VFS"] = "local"
        environment["GTK_THEME"] = "Adwaita:dark"
        return environment
    }

    func addScreenshots() throws {
        process.arguments = (process.arguments ?? []) + ["--screenshots", folder.path]
    }

    func start() throws { try process.run() }

    func end() -> Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }

    func readReport() throws -> Report {
        try JSONDecoder().decode(Report.self, from: Data(contentsOf: report))
    }

    func screenshot(_ name: String) throws -> Image {
        try Image(data: Data(contentsOf: folder.appendingPathComponent(name)))
    }

    static func complaint(_ arguments: [String]) throws -> (text: String, status: Int32) {
        let process = Process()
        let output = Pipe()
        process.executableURL = products.appendingPathComponent("Gallery")
        process.arguments = arguments
        process.environment = environment(nil)
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (String(decoding: text, as: UTF8.self), process.terminationStatus)
    }
}
