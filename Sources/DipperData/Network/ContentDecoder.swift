import CBrotli
import CZlib
import CZstd
import Foundation

/// Takes the content codings off a body (RFC 9110, section 8.4), and checks that each ends where it must. That takes
/// time by the size of the body, so it does not run on the loop.
///
/// As browsers do, it accepts an empty body in any coding, further members of gzip and further frames of zstd, `deflate`
/// without its zlib wrapper, and ignores what follows the end.
enum ContentDecoder {
    /// - Parameters:
    ///   - codings: in the order in which they were applied.
    ///   - limit: the largest accepted body, in bytes; also what may lie between two codings.
    ///   - isBeginning: whether the rest is still to come, so that a missing end is no error.
    static func decode(
        _ body: Data, _ codings: [ContentCoding], atMost limit: Int, isBeginning: Bool = false
    ) throws(DipperError) -> Data {
        guard codings.count <= most else { throw .malformedResponse.with(detail: "too many content codings") }
        var body = body
        for coding in codings.reversed() where !body.isEmpty {
            var output = Output(limit: limit)
            let error = body.withUnsafeBytes { input -> DipperError? in
                switch coding {
                case .gzip: inflate(input, windowBits: 15 + 16, isNext: isGzip, into: &output)
                case .deflate: inflate(input, windowBits: isZlib(input) ? 15 : -15, into: &output)
                case .brotli: brotli(input, into: &output)
                case .zstd: zstd(input, into: &output)
                }
            }
            if let error, !(isBeginning && error == .truncated) {
                throw error.with(detail: "content coding \(coding.rawValue)")
            }
            guard let decoded = output.buffer.takeData() else { throw .tooLarge.with(detail: "there is no memory") }
            body = decoded
        }
        return body
    }

    private static let most = 5

    private enum Progress { case goesOn, ended, malformed }

    private struct Output: ~Copyable {
        var buffer = ByteBuffer()
        let limit: Int
        private let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)

        init(limit: Int) { self.limit = limit }

        deinit { piece.deallocate() }

        /// - Parameters:
        ///   - isNext: whether the bytes behind an end are a further member or frame.
        ///   - step: takes from the front of the input, and returns the numbers of bytes taken and made.
        mutating func take(
            _ input: UnsafeRawBufferPointer, isNext: (UnsafeRawBufferPointer) -> Bool = { _ in false },
            by step: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) -> (taken: Int, made: Int, Progress)
        ) -> DipperError? {
            var input = input
            while true {
                let offered = UnsafeRawBufferPointer(rebasing: input.prefix(1 << 30))
                let (taken, made, progress) = step(offered, piece)
                input = UnsafeRawBufferPointer(rebasing: input.dropFirst(taken))
                guard made <= limit - buffer.count, buffer.append(UnsafeRawBufferPointer(rebasing: piece[..<made]))
                else {
                    return .tooLarge
                }
                switch progress {
                case .ended: if !isNext(input) { return nil }
                case .malformed: return .malformedResponse
                case .goesOn: if taken == 0, made == 0 { return input.isEmpty ? .truncated : .malformedResponse }
                }
            }
        }
    }

    private static func inflate(
        _ input: UnsafeRawBufferPointer, windowBits: Int32,
        isNext: (UnsafeRawBufferPointer) -> Bool = { _ in false }, into output: inout Output
    ) -> DipperError? {
        // zlib keeps the address of its stream.
        let stream = z_streamp.allocate(capacity: 1)
        defer { stream.deallocate() }
        stream.initialize(to: z_stream())
        guard inflateInit2_(stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            return .tooLarge
        }
        defer { inflateEnd(stream) }
        return output.take(input, isNext: isNext) { input, output in
            stream.pointee.next_in = UnsafeMutablePointer(
                mutating: input.baseAddress?.assumingMemoryBound(to: Bytef.self))
            stream.pointee.avail_in = uInt(input.count)
            stream.pointee.next_out = output.baseAddress?.assumingMemoryBound(to: Bytef.self)
            stream.pointee.avail_out = uInt(output.count)
            let code = CZlib.inflate(stream, Z_NO_FLUSH)
            let progress: Progress =
                code == Z_STREAM_END ? .ended : code == Z_OK || code == Z_BUF_ERROR ? .goesOn : .malformed
            if progress == .ended { inflateReset(stream) }
            return (input.count - Int(stream.pointee.avail_in), output.count - Int(stream.pointee.avail_out), progress)
        }
    }

    private static func isGzip(_ bytes: UnsafeRawBufferPointer) -> Bool { bytes.starts(with: [0x1F, 0x8B]) }

    /// RFC 1950, section 2.2. Some servers send what they call `deflate` without this wrapper.
    private static func isZlib(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count >= 2 && bytes[0] & 0x0F == 8 && (Int(bytes[0]) << 8 | Int(bytes[1])) % 31 == 0
    }

    private static func brotli(_ input: UnsafeRawBufferPointer, into output: inout Output) -> DipperError? {
        guard let state = BrotliDecoderCreateInstance(nil, nil, nil) else { return .tooLarge }
        defer { BrotliDecoderDestroyInstance(state) }
        return output.take(input) { input, output in
            var (given, room) = (input.count, output.count)
            var next = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
            var place = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
            let result = BrotliDecoderDecompressStream(state, &given, &next, &room, &place, nil)
            let progress: Progress =
                result == BROTLI_DECODER_RESULT_SUCCESS
                ? .ended : result == BROTLI_DECODER_RESULT_ERROR ? .malformed : .goesOn
            return (input.count - given, output.count - room, progress)
        }
    }

    private static func zstd(_ input: UnsafeRawBufferPointer, into output: inout Output) -> DipperError? {
        guard let stream = ZSTD_createDStream() else { return .tooLarge }
        defer { ZSTD_freeDStream(stream) }
        // The largest window of this coding is 8 MB (RFC 9659).
        ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 23)
        return output.take(input, isNext: isZstd) { input, output in
            var source = ZSTD_inBuffer(src: input.baseAddress, size: input.count, pos: 0)
            var target = ZSTD_outBuffer(dst: output.baseAddress, size: output.count, pos: 0)
            let left = ZSTD_decompressStream(stream, &target, &source)
            let progress: Progress = ZSTD_isError(left) != 0 ? .malformed : left == 0 ? .ended : .goesOn
            return (source.pos, target.pos, progress)
        }
    }

    /// A frame, or one to be skipped (RFC 8878, section 3.1).
    private static func isZstd(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD])
            || bytes.count >= 4 && bytes[0] & 0xF0 == 0x50 && bytes[1...3].elementsEqual([0x2A, 0x4D, 0x18])
    }
}
