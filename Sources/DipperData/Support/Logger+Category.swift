import Logging

extension Logger {
    /// A logger that logs nothing.
    static let silent = Logger(label: "dipper") { _ in SwiftLogNoOpLogHandler() }

    /// Returns this logger with a topic in its metadata.
    func category(_ name: String) -> Logger {
        var copy = self
        copy[metadataKey: "category"] = "\(name)"
        return copy
    }
}
