import CodecShims
import Foundation

/// A decoder for JPEG, by libjpeg-turbo: grey, YCbCr, RGB, CMYK and YCCK; baseline, progressive and arithmetic.
///
/// For a smaller target the picture is first decoded to 1/8, 1/4 or 1/2 of its size. A file with invalid codes still
/// gives a picture, as in browsers. A file that ends too early throws `DipperError.undecodable` unless the options
/// allow a partial picture: then the missing part of a single scan is transparent, and a progressive picture is coarse.
///
/// ```swift
/// let target = TargetSize(width: 320, height: 240)
/// let small = try JPEGDecoder().decode(bytes, DecodeOptions(target: target))
/// ```
public struct JPEGDecoder: ImageDecoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    private static let rowsPerStep = 16

    /// Creates a decoder.
    public init() {}

    public func recognizes(_ start: Data) -> Bool { start.starts(with: [0xFF, 0xD8, 0xFF]) }

    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        try data.withBytes { bytes throws(DipperError) in
            try memory(JPEGReader(bytes), JPEGHeader(bytes).orientation ?? .up, fileSize: bytes.count, options)
        }
    }

    func memory(
        _ reader: JPEGReader, _ orientation: Image.Orientation, fileSize: Int, _ options: DecodeOptions
    ) throws(DipperError) -> Int {
        let stored = try options.storedTarget(for: reader.size, orientation)
        let eighths = Self.eighths(from: reader.size, to: stored)
        let source = PixelSize(
            width: Self.scaled(reader.size.width, eighths), height: Self.scaled(reader.size.height, eighths))
        let writer = try RowWriter.byteCount(from: source, to: stored, orientation)
        guard reader.header.has_several_scans else { return writer }
        // The scans that are needed may be copied.
        return writer + Int(reader.header.coefficient_bytes) + (eighths == 1 ? fileSize : 0)
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        return try data.withBytes { bytes throws(DipperError) in try decode(bytes, options) }
    }

    private func decode(_ bytes: UnsafeRawBufferPointer, _ options: DecodeOptions) throws(DipperError) -> Image {
        var reader = try JPEGReader(bytes)
        let (colors, eighths, orientation) = try plan(reader, bytes, options)
        func picture(_ reader: JPEGReader) throws(DipperError) -> Image {
            let source = reader.outputSize
            var writer = try RowWriter(
                source: source, of: reader.size, alpha: .opaque, orientation: orientation, options)
            try writer.fill(rowsAtATime: Self.rowsPerStep) { memory, _, rows throws(DipperError) in
                let done = try reader.read(rows, of: source.width * 4, into: memory)
                colors.convert(memory, pixels: source.width * done)
                return done
            }
            return try writer.finish(color: colors.afterwards)
        }
        guard reader.header.has_several_scans else {
            // The bytes of a preview end early.
            let mayEndEarly = options.allowsPartial && !bytes.suffix(2).elementsEqual([0xFF, 0xD9])
            try reader.start(eighths: eighths, isFlawless: !mayEndEarly)
            do throws(DipperError) {
                return try picture(reader)
            } catch {
                guard reader.foundFlaw else { throw error }
            }
            reader = try JPEGReader(bytes)
            try reader.start(eighths: eighths)
            return try picture(reader)
        }
        guard eighths == 1, let filtered = JPEGScans.meansOnly(bytes) else {
            try JPEGScans.absorb(&reader, bytes, eighths, options)
            return try picture(reader)
        }
        return try filtered.withBytes { bytes throws(DipperError) in
            var reader = try JPEGReader(bytes)
            try JPEGScans.absorb(&reader, bytes, eighths, options)
            return try picture(reader)
        }
    }

    /// Checks the limits, and returns how the picture is to be decoded.
    /// - Parameter bytes: the file, or as much of it as ``JPEGReader`` has needed for the header.
    func plan(
        _ reader: JPEGReader, _ bytes: UnsafeRawBufferPointer, _ options: DecodeOptions
    ) throws(DipperError) -> (colors: JPEGColors, eighths: Int, orientation: Image.Orientation) {
        let segments = JPEGHeader(bytes)
        let (header, size, orientation) = (reader.header, reader.size, segments.orientation ?? .up)
        try options.limits.check(size)
        guard header.colors != DIPPER_JPEG_UNKNOWN else { throw .undecodable.with(detail: "unknown colours") }
        try options.limits.check(bytes: memory(reader, orientation, fileSize: bytes.count, options))
        let eighths = try Self.eighths(from: size, to: options.storedTarget(for: size, orientation))
        return (JPEGColors(header, segments.profile), eighths, orientation)
    }

    private static func scaled(_ length: Int, _ eighths: Int) -> Int { (length * eighths + 7) / 8 }

    /// The fewest eighths of the picture's size that reach the target, as a power of two: for others libjpeg-turbo has
    /// no fast transforms (3/8 takes longer than 4/8, and 5/8 to 7/8 longer than the whole picture).
    private static func eighths(from picture: PixelSize, to target: PixelSize) -> Int {
        let enough = [1, 2, 4].first {
            scaled(picture.width, $0) >= target.width && scaled(picture.height, $0) >= target.height
        }
        return enough ?? 8
    }
}

/// The bytes must stay at their address while the reader lives.
final class JPEGReader {
    private let handle: OpaquePointer
    private(set) var header = dipper_jpeg_header()
    private var coefficients: PixelStorage?
    /// Whether another reader must take the place of this one, which was to expect no flaw.
    private(set) var foundFlaw = false
    /// In bytes. libjpeg takes fewer coefficients from malloc.
    static let leastOwned = 1 << 20

    init(_ bytes: UnsafeRawBufferPointer) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let handle = dipper_jpeg_open() else { throw PixelMemory.noMemory }
        self.handle = handle
        try check(dipper_jpeg_read_header(handle, start.baseAddress, start.count, &header))
    }

    /// A reader of a file that arrives. It needs ``feed(_:)``, and ``readHeader()`` until that has succeeded.
    init() throws(DipperError) {
        guard let handle = dipper_jpeg_open() else { throw PixelMemory.noMemory }
        self.handle = handle
    }

    deinit {
        dipper_jpeg_close(handle)
    }

    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    var outputSize: PixelSize {
        PixelSize(width: Int(dipper_jpeg_output_width(handle)), height: Int(dipper_jpeg_output_height(handle)))
    }

    func start(eighths: Int, isFlawless: Bool = false) throws(DipperError) {
        let size = Int(header.coefficient_bytes)
        if size >= Self.leastOwned { coefficients = try PixelStorage(byteCount: size) }
        try check(dipper_jpeg_start(handle, Int32(eighths), isFlawless, coefficients?.base, size))
    }

    var completeScans: Int { Int(dipper_jpeg_complete_scans(handle)) }

    /// Reads a few rows of blocks of a file with several scans, up to the end of scan `stop`; 0 for all scans.
    func absorb(maxScans: Int, stopAfter stop: Int) -> dipper_jpeg_status {
        dipper_jpeg_absorb(handle, Int64(maxScans), Int64(stop))
    }

    /// Without gaps. Returns the number of rows for which the file has data.
    func read(_ rows: Int, of stride: Int, into memory: UnsafeMutableRawPointer) throws(DipperError) -> Int {
        var done: Int64 = 0
        let status = dipper_jpeg_read_rows(handle, memory, stride, Int64(rows), &done)
        foundFlaw = status == DIPPER_JPEG_FLAWED
        if status != DIPPER_JPEG_TRUNCATED { try check(status) }
        return max(0, Int(done))
    }

    /// Gives all bytes that have arrived. They must stay at their address until the next call, or until the last one of
    /// the methods that read.
    func feed(_ bytes: UnsafeRawBufferPointer) {
        let start = bytes.bindMemory(to: UInt8.self)
        dipper_jpeg_feed(handle, start.baseAddress, start.count)
    }

    /// - Returns: `false` if more bytes must arrive first.
    func readHeader() throws(DipperError) -> Bool {
        let status = dipper_jpeg_read_arriving_header(handle, &header)
        if status == DIPPER_JPEG_MORE { return false }
        try check(status)
        return true
    }

    /// Without gaps. Returns the number of rows for which bytes have arrived.
    func readArriving(_ rows: Int, of stride: Int, into memory: UnsafeMutableRawPointer) throws(DipperError) -> Int {
        var done: Int64 = 0
        let status = dipper_jpeg_read_arriving_rows(handle, memory, stride, Int64(rows), &done)
        if status != DIPPER_JPEG_MORE { try check(status) }
        return Int(done)
    }

    func check(_ status: dipper_jpeg_status) throws(DipperError) {
        switch status {
        case DIPPER_JPEG_OK: return
        case DIPPER_JPEG_TRUNCATED: throw RowWriter.truncated
        case DIPPER_JPEG_NO_MEMORY: throw PixelMemory.noMemory
        default: throw .undecodable.with(detail: String(cString: dipper_jpeg_message(handle)))
        }
    }
}

struct JPEGColors {
    /// Applied after the rows are scaled to their final size.
    let afterwards: ColorTransform?
    private let cmyk: ColorTransform?
    private let isCMYK: Bool
    private let isInverted: Bool

    init(_ header: dipper_jpeg_header, _ profile: Data?) {
        isCMYK = header.colors == DIPPER_JPEG_CMYK
        isInverted = header.is_adobe
        let source: ColorTransform.Source =
            isCMYK ? .cmyk(isInverted: isInverted) : header.colors == DIPPER_JPEG_GREY ? .grey : .rgb
        let transform = profile.flatMap { ColorTransform.shared(icc: $0, for: source) }
        cmyk = isCMYK ? transform : nil
        afterwards = isCMYK ? nil : transform
    }

    /// Converts CMYK pixels to opaque RGBA in place. Pixels of other colours are RGBA already.
    func convert(_ memory: UnsafeMutableRawPointer, pixels: Int) {
        guard isCMYK else { return }
        if let cmyk { return cmyk.apply(to: memory, pixels: pixels, isOpaque: true) }
        // Each colour is the light that its ink lets through, multiplied by the light that black lets through.
        let row = memory.assumingMemoryBound(to: UInt8.self)
        let flip: UInt8 = isInverted ? 0 : 255
        for start in stride(from: 0, to: pixels * 4, by: 4) {
            let light = UInt32(row[start + 3] ^ flip)
            for index in start..<start + 3 { row[index] = UInt8((UInt32(row[index] ^ flip) * light + 127) / 255) }
            row[start + 3] = 255
        }
    }
}

/// An encoder for baseline JPEG in sRGB, by libjpeg-turbo, with optimized Huffman tables. Below a quality of 0.9,
/// chroma has half the resolution each way (4:2:0). Transparent pictures are drawn over ``EncodeOptions/background``.
public struct JPEGEncoder: ImageEncoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    /// Creates an encoder.
    public init() {}

    public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
        let quality = Int32(max(1, (options.validQuality * 100).rounded()))
        let (width, height, halves) = (Int64(image.width), Int64(image.height), options.validQuality < 0.9)
        let size = dipper_jpeg_coefficient_bytes(width, height, halves)
        let coefficients = try size < JPEGReader.leastOwned ? nil : PixelStorage(byteCount: size)
        defer { withExtendedLifetime(coefficients) {} }
        let created = dipper_jpeg_create(width, height, quality, halves, coefficients?.base, size)
        guard let writer = created else { throw .unencodable.with(detail: "libjpeg cannot write \(image.size) pixels") }
        defer { dipper_jpeg_discard(writer) }
        if image.isOpaque {
            try Self.check(dipper_jpeg_write_rows(writer, image.row(0), image.rowStride, Int64(image.height)))
        } else {
            let background = options.background.with(alpha: 1).premultiplied
            let scratch = try PixelStorage(byteCount: image.width * 4)
            let row = scratch.base.assumingMemoryBound(to: UInt8.self)
            for y in 0..<image.height {
                row.update(from: image.row(y), count: image.width * 4)
                row.layBehind(background, count: image.width)
                try Self.check(dipper_jpeg_write_rows(writer, row, image.width * 4, 1))
            }
            withExtendedLifetime(scratch) {}
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        var count = 0
        try Self.check(dipper_jpeg_end(writer, &bytes, &count))
        guard let bytes else { throw .unencodable }
        return Data(
            bytesNoCopy: bytes, count: count,
            deallocator: .custom { [count] bytes, _ in dipper_output_free(bytes, count) })
    }

    private static func check(_ status: dipper_jpeg_status) throws(DipperError) {
        if status != DIPPER_JPEG_OK { throw .unencodable.with(detail: "libjpeg cannot write the picture") }
    }
}
