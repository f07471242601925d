/// What a ``RawServer`` does with a connection; one after the other.
public enum RawStep: Sendable {
    /// Sends these bytes.
    case bytes([UInt8])
    /// Sends these bytes again and again, as fast as the client takes them.
    case flood([UInt8], count: Int)
    /// Sends these bytes again and again, one time in so many milliseconds.
    case drip([UInt8], every: Int, count: Int)
    /// Does nothing more, but sees the client leave.
    case wait
    /// Closes the connection in order.
    case close
    /// Breaks the connection once the client's kernel has all that was sent.
    case reset

    /// Sends this text.
    public static func send(_ text: String) -> RawStep { .bytes(Array(text.utf8)) }

    /// Sends this text again and again, as fast as the client takes it.
    /// - Parameter count: how many times; for ever, if not said.
    public static func `repeat`(_ text: String, count: Int = .max) -> RawStep { .flood(Array(text.utf8), count: count) }
}
