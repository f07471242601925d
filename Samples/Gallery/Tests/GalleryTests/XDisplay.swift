import Foundation

/// An X server without a screen, for one test; the server ends with the last reference.
final class XDisplay {
    struct Failure: Error {
        let text: String
    }

    /// The name of the display, for the variable `DISPLAY`.
    let name: String
    private let number: Int
    private let process = Process()

    init(width: Int, height: Int) throws {
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // Xvfb chooses a free number itself and prints it.
        process.arguments = [
            "Xvfb", "-displayfd", "1", "-screen", "0", "\(width)x\(height)x24", "-nolisten", "tcp", "-noreset",
        ]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        var line = Data()
        while let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty, byte != Data("\n".utf8) {
            line += byte
        }
        guard let number = Int(String(decoding: line, as: UTF8.self)) else {
            throw Failure(text: "Xvfb does not start")
        }
        self.number = number
        name = ":\(number)"
    }

    deinit {
        // Xvfb inherits the signal mask of the thread that started it, which may block all signals except SIGKILL.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        for file in ["/tmp/.X\(number)-lock", "/tmp/.X11-unix/X\(number)"] {
            try? FileManager.default.removeItem(atPath: file)
        }
    }
}
