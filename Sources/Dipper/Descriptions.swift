import DipperData

// Requests and tasks tell no secrets; see `Redaction`.

extension ImageRequest: RedactedStringConvertible {
    /// The URL or key without secrets, the names of the fields, and the processors.
    public var description: String {
        let processors = (options.processors ?? []).map(\.identifier).joined(separator: " |> ")
        return processors.isEmpty ? "\(data)" : "\(data) |> \(processors)"
    }
}

extension ImageTask: RedactedStringConvertible {
    /// The key without secrets, the lane, and the state of the task.
    public var description: String { "\(key) \(lane.rawValue) \(state)" }
}

extension ImageResponse: RedactedStringConvertible {
    /// The status, the size of the picture, and the tier that answered.
    public var description: String { "\(status) \(image.size) pixels from \(source.rawValue)" }
}
