/// A step of a ``RawServer`` on a connection. Steps run one after the other.
public enum RawStep: Sendable {
    /// Sends bytes.
    case bytes([UInt8])
    /// Sends bytes `count` times, as fast as the client takes them.
    case flood([UInt8], count: Int)
    /// Sends bytes `count` times, with a pause of `every` milliseconds after each time.
    case drip([UInt8], every: Int, count: Int)
    /// Sends nothing more, but still notices when the client closes the connection.
    case wait
    /// Closes the connection normally.
    case close
    /// Resets the connection once the client's kernel has acknowledged all bytes, or after 2 seconds.
    case reset

    /// Returns the step that sends a text.
    public static func send(_ text: String) -> RawStep { .bytes(Array(text.utf8)) }

    /// Returns the step that sends a text again and again, as fast as the client takes it.
    /// - Parameter count: the number of times; forever by default.
    public static func `repeat`(_ text: String, count: Int = .max) -> RawStep { .flood(Array(text.utf8), count: count) }
}
