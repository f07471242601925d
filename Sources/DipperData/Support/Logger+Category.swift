import Logging

extension Logger {
    /// Returns this logger with a topic in its metadata.
    func category(_ name: String) -> Logger {
        var copy = self
        copy[metadataKey: "category"] = "\(name)"
        return copy
    }
}
