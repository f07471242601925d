import Foundation

/// An X server without a screen, for one test; it ends with the last reference.
final class XDisplay {
    struct Failure: Error {
        let text: String
    }

    /// As `DISPLAY` has it.
    let name: String
    private let number: Int
    private let process = Process()

    init(width: Int, height: Int) throws {
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // It chooses a free number itself, and tells it.
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
        // It has got the signal mask of the thread that started it, which may hold back all others.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        for file in ["/tmp/.X\(number)-lock", "/tmp/.X11-unix/X\(number)"] {
            try? FileManager.default.removeItem(atPath: file)
        }
    }
}
