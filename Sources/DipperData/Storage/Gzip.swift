import CZlib
import Foundation

/// Bodies compressed by gzip (RFC 1952) with zlib, whole ones at a time.
enum Gzip {
    /// What zlib takes in one step is counted in 32 bits.
    private static let largestStep = 1 << 30
    /// Of zlib: a window of 32 KiB, and gzip's own header and trailer around it.
    private static let windowBits: Int32 = 15 + 16

    /// `nil` if the body does not fit into `limit` bytes, which is found out without making more.
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

    /// `nil` if these bytes are not one whole stream of exactly `count` bytes. No more memory is taken than that, and
    /// none if so few bytes cannot hold so many.
    static func decompress(_ bytes: UnsafeRawBufferPointer, count: Int) -> Data? {
        // The most that deflate makes of a byte: 258 of two bits.
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

    /// Runs all of the input through zlib, to an end that is also the input's; `nil` if there is no such end within
    /// `room` bytes.
    private static func transform(
        _ input: UnsafeRawBufferPointer, room: Int, begin: (z_streamp) -> Int32,
        step: (z_streamp, _ isLast: Bool) -> Int32, end: (z_streamp) -> Int32
    ) -> Data? {
        // zlib remembers where its stream lies.
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
        // The room was a guess; what is kept is not.
        return Data(bytesNoCopy: realloc(output, max(made, 1)) ?? output, count: made, deallocator: .free)
    }
}
