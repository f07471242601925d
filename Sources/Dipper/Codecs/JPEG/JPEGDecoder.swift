import CodecShims
import Foundation

/// A decoder for JPEG, by libjpeg-turbo: grey, YCbCr, RGB, CMYK and YCCK; baseline, progressive and arithmetic.
///
/// For a smaller target the picture is first decoded to 1/8, 1/4 or 1/2 of its size. A file with invalid codes still
/// gives a picture, as in browsers. A file that ends too early throws `DipperError.undecodable` unless the options
/// allow a partial picture: then the missing part of a single scan is transparent, and a progressive picture is coarse.
///
/// ```swift
/// let target = TargetSize(PixelSize(width: 320, height: 240))
/// let small = try JPEGDecoder().decode(bytes, DecodeOptions(target: target))
/// ```
public struct JPEGDecoder: ImageDecoder {
    /// The format ``ImageFormat/jpeg``.
    public var format: ImageFormat { .jpeg }

    private static let rowsPerStep = 16

    /// Creates a decoder.
    public init() {}

    public func recognizes(_ start: Data) -> Bool { start.starts(with: [0xFF, 0xD8, 0xFF]) }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let orientation = (try? ImageInfo(data))?.orientation ?? .up
        return try data.withBytes { bytes throws(DipperError) in try decode(bytes, orientation, options) }
    }

    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ orientation: Orientation, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let reader = try JPEGReader(bytes)
        let header = reader.header
        let size = reader.size
        try options.limits.check(size)
        guard header.colors != DIPPER_JPEG_UNKNOWN else { throw .undecodable.with(detail: "unknown colours") }
        let stored = options.storedTarget(for: size, orientation)
        try options.limits.checkMemory(stored)
        let (needed, overflows) = Int(header.coefficient_bytes).addingReportingOverflow(
            stored.width * stored.height * 4)
        try options.limits.check(bytes: overflows ? .max : needed)

        let colors = JPEGColors(header, bytes)
        let eighths = JPEGScale.eighths(from: size, to: stored)
        func picture(_ reader: consuming JPEGReader) throws(DipperError) -> Image {
            let writer = try RowWriter(
                source: reader.outputSize, of: size, alpha: .opaque, orientation: orientation, options)
            return try Self.picture(reader, writer, colors, options)
        }
        guard header.has_several_scans else {
            var reader = reader
            try reader.start(eighths: eighths, memory: options.limits.bytes)
            return try picture(reader)
        }
        let filtered = eighths == 1 ? JPEGScanFilter.meansOnly(bytes) : nil
        guard let filtered else {
            return try picture(try JPEGScans.absorbed(reader, bytes, eighths, options))
        }
        return try filtered.withBytes { bytes throws(DipperError) in
            try picture(try JPEGScans.absorbed(try JPEGReader(bytes), bytes, eighths, options))
        }
    }

    private static func picture(
        _ reader: consuming JPEGReader, _ writer: consuming RowWriter, _ colors: JPEGColors, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let width = writer.source.width
        while writer.committed < writer.source.height {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: rowsPerStep)
            let done = try reader.read(rows, of: width * 4, into: base)
            colors.convert(base, pixels: width * done)
            writer.commit(done)
            if done < rows {
                guard options.allowsPartial, writer.committed > 0 else { throw JPEGReader.truncated }
                break
            }
        }
        return try writer.finish(color: colors.afterwards)
    }
}

private enum JPEGScale {
    /// The smallest number of eighths of the picture's size that is at least the target. Only powers of two are used,
    /// because libjpeg-turbo has fast transforms only for these: 3/8 takes longer than 4/8, and 5/8 to 7/8 take longer
    /// than the whole picture.
    static func eighths(from picture: PixelSize, to target: PixelSize) -> Int {
        for eighths in [1, 2, 4] {
            let width = scaled(picture.width, eighths)
            let height = scaled(picture.height, eighths)
            if width >= target.width && height >= target.height { return eighths }
        }
        return 8
    }

    /// Rounded up as libjpeg does.
    private static func scaled(_ length: Int, _ eighths: Int) -> Int { (length * eighths + 7) / 8 }
}

/// The bytes must stay at their address while the reader lives.
struct JPEGReader: ~Copyable {
    let header: dipper_jpeg_header
    private let handle: OpaquePointer

    init(_ bytes: UnsafeRawBufferPointer) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let handle = dipper_jpeg_open(start.baseAddress, start.count) else { throw Self.noMemory }
        var header = dipper_jpeg_header()
        let status = dipper_jpeg_read_header(handle, &header)
        guard status == DIPPER_JPEG_OK else {
            let error = Self.error(status, handle)
            dipper_jpeg_close(handle)
            throw error
        }
        self.handle = handle
        self.header = header
    }

    deinit {
        dipper_jpeg_close(handle)
    }

    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    /// Known after ``start(eighths:memory:)``.
    var outputSize: PixelSize {
        PixelSize(width: Int(dipper_jpeg_output_width(handle)), height: Int(dipper_jpeg_output_height(handle)))
    }

    /// With at most `memory` bytes for libjpeg.
    mutating func start(eighths: Int, memory: Int) throws(DipperError) {
        let status = dipper_jpeg_start(handle, Int32(eighths), max(0, memory))
        guard status == DIPPER_JPEG_OK else { throw Self.error(status, handle) }
    }

    enum Step {
        case more
        case done
        /// The bytes end too early. A reader reports this only once.
        case truncated
        /// An error after this number of complete scans. Another reader may stop after them; this one cannot continue.
        case brokenOff(Int)
    }

    /// Reads a few rows of blocks of a file with several scans, up to the end of scan `stop`; 0 for all scans.
    mutating func absorb(maxScans: Int, stopAfter stop: Int) throws(DipperError) -> Step {
        let status = dipper_jpeg_absorb(handle, 16, Int64(maxScans), Int64(stop))
        switch status {
        case DIPPER_JPEG_BROKEN_OFF: return .brokenOff(Int(dipper_jpeg_complete_scans(handle)))
        case DIPPER_JPEG_OK: return .done
        case DIPPER_JPEG_MORE: return .more
        case DIPPER_JPEG_TRUNCATED: return .truncated
        case DIPPER_JPEG_TOO_MANY_SCANS: throw .imageTooLarge.with(detail: "more than \(maxScans) scans")
        default: throw Self.error(status, handle)
        }
    }

    /// Without gaps. Returns the number of rows for which the file has data.
    mutating func read(
        _ rows: Int, of stride: Int, into memory: UnsafeMutableRawPointer
    ) throws(DipperError) -> Int {
        var done: Int64 = 0
        let status = dipper_jpeg_read_rows(handle, memory, stride, Int64(rows), &done)
        switch status {
        case DIPPER_JPEG_OK, DIPPER_JPEG_TRUNCATED: return max(0, Int(done))
        default: throw Self.error(status, handle)
        }
    }

    static let truncated = DipperError.undecodable.with(detail: "truncated")
    private static let noMemory = DipperError.imageTooLarge.with(detail: "out of memory")

    private static func error(_ status: dipper_jpeg_status, _ handle: OpaquePointer) -> DipperError {
        switch status {
        case DIPPER_JPEG_TRUNCATED: truncated
        case DIPPER_JPEG_NO_MEMORY: noMemory
        default: .undecodable.with(detail: String(cString: dipper_jpeg_message(handle)))
        }
    }
}

private struct JPEGColors {
    /// Applied after the rows are scaled to their final size.
    let afterwards: ColorTransform?
    private let cmyk: ColorTransform?
    private let isCMYK: Bool
    private let isInverted: Bool

    init(_ header: dipper_jpeg_header, _ bytes: UnsafeRawBufferPointer) {
        isCMYK = header.colors == DIPPER_JPEG_CMYK
        isInverted = header.is_adobe
        let source: ColorTransform.Source =
            isCMYK ? .cmyk(isInverted: isInverted) : header.colors == DIPPER_JPEG_GREY ? .grey : .rgb
        let transform = JPEGProfile.profile(in: bytes).flatMap { ColorTransform.shared(icc: $0, for: source) }
        cmyk = isCMYK ? transform : nil
        afterwards = isCMYK ? nil : transform
    }

    /// Converts CMYK pixels to RGBA in place. Pixels of other colours are RGBA already.
    func convert(_ memory: UnsafeMutableRawPointer, pixels: Int) {
        guard isCMYK else { return }
        if let cmyk {
            cmyk.apply(toCMYK: memory, pixels: pixels)
        } else {
            CMYKRows.convert(memory, pixels: pixels, isInverted: isInverted)
        }
    }
}

private enum CMYKRows {
    /// CMYK without a profile becomes opaque RGBA in place: each colour is the light that its ink lets through,
    /// multiplied by the light that black lets through. If `isInverted`, the bytes are 255 minus the ink.
    static func convert(_ row: UnsafeMutableRawPointer, pixels: Int, isInverted: Bool) {
        let row = row.assumingMemoryBound(to: UInt8.self)
        let flip: UInt8 = isInverted ? 0 : 255
        for start in stride(from: 0, to: pixels * 4, by: 4) {
            let light = UInt32(row[start + 3] ^ flip)
            for index in start..<start + 3 { row[index] = UInt8((UInt32(row[index] ^ flip) * light + 127) / 255) }
            row[start + 3] = 255
        }
    }
}

/// A JPEG file stores its profile in parts of at most 64 KiB (ICC.1:2022, B.4).
enum JPEGProfile {
    private static let name = Array("ICC_PROFILE\0".utf8)

    /// `nil` if there is no profile, a part is missing, or it is too large.
    static func profile(in bytes: UnsafeRawBufferPointer) -> Data? {
        var parts: [UInt8: Range<Int>] = [:]
        var count: UInt8?
        var markers = JPEGMarkers()
        while let item = markers.next(in: bytes) {
            guard case .segment(let code, let range) = item, code != 0xDA else { break }
            guard code == 0xE2, range.count > name.count + 2,
                bytes[range].prefix(name.count).elementsEqual(name)
            else { continue }
            let start = range.lowerBound + name.count
            let (number, total) = (bytes[start], bytes[start + 1])
            guard number >= 1, number <= total, total == count ?? total, parts[number] == nil else { return nil }
            count = total
            parts[number] = start + 2..<range.upperBound
        }
        guard let count, parts.count == Int(count),
            parts.values.reduce(0, { $0 + $1.count }) <= ColorTransform.largestProfile
        else { return nil }
        var profile = Data()
        for number in 1...count {
            guard let part = parts[number] else { return nil }
            profile.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[part]))
        }
        return profile
    }
}
