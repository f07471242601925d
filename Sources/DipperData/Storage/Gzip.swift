import CZlib
import Foundation

/// Compression and decompression of whole bodies with gzip (RFC 1952), by zlib.
enum Gzip {
    /// The largest number of bytes that one call of zlib takes or makes: zlib counts them in 32 bits.
    private static let largestStep = 1 << 30
    /// zlib's parameter for a window of 32 KiB with the header and trailer of gzip.
    private static let windowBits: Int32 = 15 + 16

    /// Returns the compressed body; `nil` if it does not fit into `limit` bytes. Never makes more bytes than that.
    static func compress(_ body: Data, atMost limit: Int) -> Data? {
        body.withUnsafeBytes { input in
            transform(input, room: limit) { stream in
                deflateInit2_(
                    stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                    Int32(MemoryLayout<z_stream>.size))
            } step: { stream, isLast in
                deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
            } end: { stream in
                deflateEnd(stream)
            }
        }
    }

    /// Returns the body; `nil` if the bytes are not one complete stream of exactly `count` bytes. Allocates no more
    /// memory than `count` bytes, and none if the stream is too short for such a body.
    static func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) -> Data? {
        // Deflate makes at most 1,032 bytes of one: two bits can stand for 258 bytes.
        guard count >= 0, count / 1_032 <= bytes.count else { return nil }
        let body = transform(bytes, room: count) { stream in
            inflateInit2_(stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        } step: { stream, _ in
            inflate(stream, Z_NO_FLUSH)
        } end: { stream in
            inflateEnd(stream)
        }
        return body?.count == count ? body : nil
    }

    /// Runs all of the input through zlib. Returns `nil` unless the stream ends where the input ends, within `room`
    /// bytes.
    private static func transform(
        _ input: UnsafeRawBufferPointer, room: Int, begin: (z_streamp) -> Int32,
        step: (z_streamp, _ isLast: Bool) -> Int32, end: (z_streamp) -> Int32
    ) -> Data? {
        // zlib keeps the address of its stream, which must not move.
        let stream = z_streamp.allocate(capacity: 1)
        defer { stream.deallocate() }
        stream.initialize(to: z_stream())
        guard begin(stream) == Z_OK else { return nil }
        defer { _ = end(stream) }
        guard let output = malloc(max(room, 1)) else { return nil }
        var (taken, made) = (0, 0)
        while true {
            let given = min(input.count - taken, largestStep)
            let offered = min(room - made, largestStep)
            stream.pointee.next_in = input.baseAddress.map {
                UnsafeMutablePointer(mutating: ($0 + taken).assumingMemoryBound(to: Bytef.self))
            }
            stream.pointee.avail_in = uInt(given)
            stream.pointee.next_out = (output + made).assumingMemoryBound(to: Bytef.self)
            stream.pointee.avail_out = uInt(offered)
            let result = step(stream, taken + given == input.count)
            let (read, written) = (given - Int(stream.pointee.avail_in), offered - Int(stream.pointee.avail_out))
            taken += read
            made += written
            if result == Z_STREAM_END, taken == input.count { break }
            guard result == Z_OK, read + written > 0 else {
                free(output)
                return nil
            }
        }
        // The output may be shorter than `room`; the rest of the memory is given back.
        return Data(bytesNoCopy: realloc(output, max(made, 1)) ?? output, count: made, deallocator: .free)
    }
}
