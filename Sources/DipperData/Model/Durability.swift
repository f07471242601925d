/// What it means that an entry has been written.
public enum Durability: Sendable, Hashable {
    /// It is the system's, which brings it to the device in its own time. A program that is killed loses nothing; a power
    /// cut may cost the latest entries, never give wrong ones. Nothing waits for the device.
    case relaxed
    /// It is on the device: file, folder and index have been flushed (`fdatasync`, `fsync`, SQLite's
    /// `synchronous = FULL`), so that it is there after a power cut. Each such write waits for the device, and those
    /// behind it wait with it.
    case durable
}
