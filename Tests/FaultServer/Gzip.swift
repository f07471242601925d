import CZlib
import Foundation

/// Returns the data in gzip's format (RFC 1952).
func gzip(_ data: [UInt8]) -> [UInt8] {
    var stream = z_stream()
    // 15 is zlib's largest window, and 16 asks for gzip instead of zlib's own format.
    let status = deflateInit2_(
        &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
        Int32(MemoryLayout<z_stream>.size))
    precondition(status == Z_OK, "zlib refuses its own defaults: \(status)")
    defer { deflateEnd(&stream) }
    var input = data
    let capacity = Int(deflateBound(&stream, uLong(input.count)))
    return input.withUnsafeMutableBufferPointer { input in
        [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
            (stream.next_in, stream.avail_in) = (input.baseAddress, uInt(input.count))
            (stream.next_out, stream.avail_out) = (output.baseAddress, uInt(capacity))
            let status = deflate(&stream, Z_FINISH)
            precondition(status == Z_STREAM_END, "the bound was too small: \(status)")
            count = capacity - Int(stream.avail_out)
        }
    }
}

/// Small gzip streams that decode to many bytes.
public enum GzipBomb {
    /// Returns a stream that decodes to `count` zeros and is about 1,000 times smaller.
    public static func zeros(_ count: Int) -> [UInt8] { gzip([UInt8](repeating: 0, count: count)) }

    /// Returns a stream that decodes to the stream of ``zeros(_:)``.
    public static func nested(_ count: Int) -> [UInt8] { gzip(zeros(count)) }
}
