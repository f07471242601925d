import CFastPNG
import CLCMS
import CPixels
import CodecShims
import Foundation

/// A decoder for PNG, still and animated: all colour types and depths, also interlaced; 16 bits are rounded to eight.
///
/// The pixels of a complete file that is not interlaced are decoded by code of Dipper's own, all others by libpng. Both
/// give the same pixels.
///
/// Colours are converted to sRGB from coded colours (`cICP`, PQ and HLG as by ``AVIFDecoder``), or else from a profile
/// (`iCCP`), or else from `gAMA` and `cHRM` unless the chunk `sRGB` is there. A wrong checksum in one of the picture's chunks throws `DipperError.undecodable`. A
/// file that ends too early does too unless the options allow a partial picture: then the missing part is transparent,
/// or coarse in an interlaced picture. A damaged animation has the frames before the damage; without a sound frame it
/// is the still picture.
public struct PNGDecoder: ImageDecoder {
    /// The format ``ImageFormat/png``.
    public var format: ImageFormat { .png }

    /// Few enough to stay in the processor's cache until they are processed.
    private static let bytesPerStep = 1 << 18

    /// Creates a decoder.
    public init() {}

    public func memory(of data: Data, _ options: DecodeOptions) throws(DipperError) -> Int {
        let info = try ImageInfo(data)
        return try info.isAnimation
            ? PNGFrames.memory(of: info, fileSize: data.count, options).all
            : Self.memory(of: info, fileSize: data.count, options)
    }

    static func memory(of info: ImageInfo, fileSize: Int, _ options: DecodeOptions) throws(DipperError) -> Int {
        let size = info.orientation.applied(to: info.size ?? PixelSize(width: 0, height: 0))
        let writer = try RowWriter.byteCount(
            from: size, to: options.storedTarget(for: size, info.orientation), info.orientation)
        // Each pass of an interlaced picture covers all of it. A partial file is copied, to end its last chunk.
        return try writer + (info.isProgressive ? size.byteCount() : 0) + (options.allowsPartial ? fileSize : 0)
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let info = try ImageInfo(data)
        if info.isAnimation {
            let frames = FileFrames(try PNGFrames(data, info, options), options)
            do throws(DipperError) {
                return try picture(frames, of: data)
            } catch {
                // Without one sound frame there may be the still picture.
                if error != .undecodable { throw error }
            }
        }
        return try data.withBytes { bytes throws(DipperError) in
            let reader = try PNGReader(bytes, mayEndEarly: options.allowsPartial)
            let color = PNGColors.transform(for: reader.header, info)
            return try Self.decode(reader, info, fileSize: bytes.count, color, options)
        }
    }

    public func frames(of data: Data, _ options: DecodeOptions) throws(DipperError) -> (any FrameDecoder)? {
        let info = try ImageInfo(data)
        return info.isAnimation ? FileFrames(try PNGFrames(data, info, options), options).ifAnimated : nil
    }

    static func decode(
        _ reader: PNGReader, _ info: ImageInfo, fileSize: Int, _ color: ColorTransform?, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let size = reader.size
        try options.limits.check(size)
        try options.limits.check(bytes: Self.memory(of: info, fileSize: fileSize, options))
        let rowsAtATime = max(1, Self.bytesPerStep / (size.width * 4))
        if let rows = try reader.start() {
            defer { fastpng_close(rows) }
            let writer = try Self.writer(reader, info, options)
            if let image = try Self.decode(rows, to: writer, rowsAtATime, color, options) { return image }
        }
        var writer = try Self.writer(reader, info, options)
        if reader.header.is_interlaced {
            let picture = try PixelStorage(byteCount: size.width * size.height * 4)
            let known = try Self.readPasses(reader, into: picture.base, rowsAtATime, options)
            try writer.fill(rowsAtATime: rowsAtATime) { memory, first, rows throws(DipperError) in
                let done = min(rows, known - first)
                memory.copyMemory(from: picture.base + first * size.width * 4, byteCount: done * size.width * 4)
                reader.addAlpha(memory, rows: done)
                return done
            }
            withExtendedLifetime(picture) {}
        } else {
            try writer.fill(rowsAtATime: rowsAtATime) { memory, _, rows throws(DipperError) in
                let done = try reader.read(rows, to: memory)
                reader.addAlpha(memory, rows: done)
                return done
            }
        }
        return try writer.finish(color: color)
    }

    private static func writer(
        _ reader: PNGReader, _ info: ImageInfo, _ options: DecodeOptions
    ) throws(DipperError) -> RowWriter {
        try RowWriter(
            source: reader.size, of: reader.size, alpha: reader.header.has_alpha ? .straight : .opaque,
            orientation: info.orientation, options)
    }

    /// Returns `nil` for a file that libpng must decode, from its first row on: what a damaged file is worth, and which
    /// error it is, is for libpng alone to say.
    private static func decode(
        _ rows: OpaquePointer, to writer: consuming RowWriter, _ rowsAtATime: Int, _ color: ColorTransform?,
        _ options: DecodeOptions
    ) throws(DipperError) -> Image? {
        while writer.committed < writer.source.height {
            try options.checkCancelled()
            let (base, count) = writer.memory(rows: rowsAtATime)
            guard fastpng_read(rows, base, count) else { return nil }
            writer.commit(count)
        }
        return try writer.finish(color: color)
    }

    /// Returns the number of rows of which there are some pixels.
    private static func readPasses(
        _ reader: PNGReader, into picture: UnsafeMutableRawPointer, _ rowsAtATime: Int, _ options: DecodeOptions
    ) throws(DipperError) -> Int {
        let size = reader.size
        for pass in 0..<7 {
            for y in stride(from: 0, to: size.height, by: rowsAtATime) {
                try options.checkCancelled()
                let rows = min(rowsAtATime, size.height - y)
                let done = try reader.read(
                    rows, to: picture + y * size.width * 4, fillsBlocks: options.allowsPartial)
                if done == rows { continue }
                guard options.allowsPartial else { throw RowWriter.truncated }
                // After the first pass each row holds some pixels.
                return pass == 0 ? y + done : size.height
            }
        }
        return size.height
    }
}

/// A PNG file, as libpng reads it.
final class PNGReader {
    private let reader: OpaquePointer
    private(set) var header = dipper_png_header()

    /// In bytes, for one chunk other than pixels.
    private static let largestChunk = 8 << 20

    /// Reads up to the pixels. The bytes must stay at their address while the reader lives. With `mayEndEarly`, an
    /// incomplete last chunk is read as far as it goes.
    init(_ bytes: UnsafeRawBufferPointer, mayEndEarly: Bool) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let base = start.baseAddress else { throw .undecodable.with(detail: "there are no bytes") }
        guard let reader = dipper_png_open(base, start.count, mayEndEarly) else { throw PixelMemory.noMemory }
        self.reader = reader
        try check(dipper_png_read_header(reader, Self.largestChunk, &header))
    }

    deinit {
        dipper_png_close(reader)
    }

    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    /// Returns the rows of a picture that libpng need not decode. The caller must close
    /// them before the bytes go.
    func start() throws(DipperError) -> OpaquePointer? {
        var description = fastpng_header()
        let isDescribed = dipper_png_describe(reader, &description)
        try check(dipper_png_start(reader, header.has_alpha ? 4 : 3))
        return isDescribed ? fastpng_open(&description) : nil
    }

    /// Reads the next rows of RGBA, without gaps, and returns their number: fewer if the bytes end too early. In an
    /// interlaced picture these are rows of one pass, and `fillsBlocks` repeats each pixel over neighbours that have
    /// not arrived. Without alpha in the file, call ``addAlpha(_:rows:)`` once after all passes.
    func read(_ rows: Int, to memory: UnsafeMutableRawPointer, fillsBlocks: Bool = false) throws(DipperError) -> Int {
        var done = 0
        let status = dipper_png_read_rows(
            reader, memory.assumingMemoryBound(to: UInt8.self) + gap, size.width * 4, rows, fillsBlocks, &done)
        if status != DIPPER_PNG_TRUNCATED { try check(status) }
        return done
    }

    /// Converts rows of a file without alpha to RGBA. Before, each row is RGB at the end of its memory.
    func addAlpha(_ memory: UnsafeMutableRawPointer, rows: Int) {
        guard !header.has_alpha else { return }
        let width = size.width
        for y in 0..<rows {
            let row = memory.assumingMemoryBound(to: UInt8.self) + y * width * 4
            pixels_add_alpha(row, row + gap, width)
        }
    }

    private var gap: Int { header.has_alpha ? 0 : size.width }

    private func check(_ status: dipper_png_status) throws(DipperError) {
        switch status {
        case DIPPER_PNG_OK: return
        case DIPPER_PNG_TRUNCATED: throw RowWriter.truncated
        default: throw .undecodable.with(detail: String(cString: dipper_png_message(reader)))
        }
    }
}

/// PNG, third edition, section 4.3: `cICP` counts, else a profile (`iCCP`), else `sRGB`, else `gAMA` and `cHRM`.
enum PNGColors {
    /// Values within this distance count as those of sRGB, where 100,000 is 1: programs write such values for it.
    private static let tolerance: Int32 = 1000
    private static let gammaOfSRGB: Int32 = 45455
    private static let chromaticitiesOfSRGB: [Int32] = [31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000]

    static func transform(for header: dipper_png_header, _ info: ImageInfo) -> ColorTransform? {
        let icc =
            if let color = info.codedColor, color.isKnown { color.profile } else if let profile = header.profile {
                Data(bytes: profile, count: Int(header.profile_length))
            } else { info.isSRGB ? nil : profile(of: header) }
        return icc.flatMap { ColorTransform.shared(icc: $0, for: header.is_grey ? .grey : .rgb) }
    }

    /// `nil` if gamma and primaries are those of sRGB, missing, or not plausible.
    private static func profile(of header: dipper_png_header) -> Data? {
        let found = withUnsafeBytes(of: header.chromaticities) { Array($0.bindMemory(to: Int32.self)) }
        let chromaticities = header.has_chromaticities ? found : chromaticitiesOfSRGB
        let gamma = header.has_gamma ? header.gamma : gammaOfSRGB
        if zip(chromaticities, chromaticitiesOfSRGB).allSatisfy({ isNear($0, $1) }), isNear(gamma, gammaOfSRGB) {
            return nil
        }
        guard (10_000...1_000_000).contains(gamma) else { return nil }
        // A file with primaries but without a gamma has the curve of sRGB.
        return ColorTransform.profile(
            chromaticities.map { Double($0) / 100_000 },
            header.has_gamma ? cmsBuildGamma(nil, 100_000 / Double(gamma)) : ColorTransform.sRGBCurve())
    }

    private static func isNear(_ a: Int32, _ b: Int32) -> Bool { (b - tolerance...b + tolerance).contains(a) }
}

/// An encoder for PNG, by libpng: RGB for an opaque picture, otherwise RGBA with straight alpha. Alpha is exact, and
/// colours are as exact as premultiplied pixels allow: decoding the file gives the same pixels again. An animation is
/// written as APNG, of each frame the part that differs from the frame before. Durations are rounded to milliseconds,
/// above 65 seconds to hundredths of a second, and further on to tenths and to seconds.
public struct PNGEncoder: ImageEncoder {
    /// The format ``ImageFormat/png``.
    public var format: ImageFormat { .png }
    public var encodesAnimations: Bool { true }

    /// On photographs, drawings and text level 2 of zlib takes 0.25 to 0.85 of the time of libpng's default, 6. The
    /// files are from 5 % smaller to 8 % larger.
    private static let level: Int32 = 2
    /// All filters; libpng chooses the best one for each row.
    private static let filters: Int32 = 0xF8

    /// Creates an encoder.
    public init() {}

    public func encode(_ image: Image, _ options: EncodeOptions) throws(DipperError) -> Data {
        try Self.file(of: image, in: image.bounds, withoutAlpha: image.isOpaque)
    }

    public func encode(_ frames: any FrameDecoder, loopCount: Int, _ options: EncodeOptions) throws(DipperError) -> Data
    {
        // All frames have one colour type, and a frame's alpha is known when the frame is there.
        if let file = try PNGAnimationWriter.file(of: frames, loopCount: loopCount, withoutAlpha: true) { return file }
        guard let file = try PNGAnimationWriter.file(of: frames, loopCount: loopCount, withoutAlpha: false) else {
            throw Self.failed
        }
        return file
    }

    /// The file of a part of a picture.
    static func file(of image: Image, in area: PixelRect, withoutAlpha: Bool) throws(DipperError) -> Data {
        let size = area.size
        guard size.width <= Int32.max, size.height <= Int32.max else {
            throw .unencodable.with(detail: "\(size) pixels")
        }
        guard let writer = dipper_png_create() else { throw Self.failed }
        defer { dipper_png_delete(writer) }
        guard
            dipper_png_write_header(
                writer, UInt32(size.width), UInt32(size.height), withoutAlpha ? 3 : 4, Self.level, Self.filters)
                == DIPPER_PNG_OK
        else { throw Self.failed }

        try image.forEachRow(in: area, withoutAlpha: withoutAlpha) { _, row throws(DipperError) in
            guard dipper_png_write_row(writer, row) == DIPPER_PNG_OK else { throw Self.failed }
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        var length = 0
        guard dipper_png_write_end(writer, &bytes, &length) == DIPPER_PNG_OK, let bytes else { throw Self.failed }
        return Data(
            bytesNoCopy: bytes, count: length,
            deallocator: .custom { [length] bytes, _ in dipper_output_free(bytes, length) })
    }

    private static let failed = DipperError.unencodable.with(detail: "libpng cannot write the picture")
}
