/// Small gzip streams that decode to many bytes.
public enum GzipBomb {
    /// Returns a stream that decodes to `count` zeros and is about 1,000 times smaller.
    public static func zeros(_ count: Int) -> [UInt8] { Gzip.compressed([UInt8](repeating: 0, count: count)) }

    /// Returns a stream that decodes to the stream of ``zeros(_:)``.
    public static func nested(_ count: Int) -> [UInt8] { Gzip.compressed(zeros(count)) }
}
