/// The point at which an entry counts as written.
///
/// ```swift
/// let request = DataRequest(url).with(\.durability, .durable)
/// try await cache.addDataAndWait(Data("receipt 7".utf8), for: request)
/// ```
public enum Durability: Sendable, Hashable {
    /// The system has the bytes, and brings them to the device in its own time. A program that is killed loses nothing;
    /// a power cut may cost the latest entries, but never leads to wrong ones. Nothing waits for the device.
    case relaxed
    /// The bytes are on the device: file, folder and index have been flushed (`fdatasync`, `fsync`, SQLite's
    /// `synchronous = FULL`), so that the entry is there after a power cut. Each such write waits for the device, and
    /// the writes behind it wait with it.
    case durable
}
