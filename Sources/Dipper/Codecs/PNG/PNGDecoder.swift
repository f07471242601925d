import CLCMS
import CPixels
import CodecShims
import Foundation

/// A decoder for PNG, by libpng: all colour types and depths, also interlaced; 16 bits are rounded to eight.
///
/// Colours are converted to sRGB from a profile (`iCCP`), or else from `gAMA` and `cHRM`, unless the `sRGB` chunk says
/// that none of this is needed. A wrong checksum in one of the picture's chunks throws `DipperError.undecodable`. A
/// file that ends too early does too unless the options allow a partial picture: then the missing part is transparent,
/// or coarse in an interlaced picture. For APNG only the still picture is decoded.
public struct PNGDecoder: ImageDecoder {
    /// The format ``ImageFormat/png``.
    public var format: ImageFormat { .png }

    /// Few enough to stay in the processor's cache until they are processed.
    private static let bytesPerStep = 1 << 18

    /// Creates a decoder.
    public init() {}

    public func recognizes(_ start: Data) -> Bool {
        start.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
    }

    public func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
        try options.checkCancelled()
        let orientation = (try? ImageInfo(data))?.orientation ?? .up
        return try data.withBytes { bytes throws(DipperError) in try decode(bytes, orientation, options) }
    }

    private func decode(
        _ bytes: UnsafeRawBufferPointer, _ orientation: Orientation, _ options: DecodeOptions
    ) throws(DipperError) -> Image {
        let reader = try PNGReader(bytes, mayEndEarly: options.allowsPartial)
        try options.limits.check(reader.size)
        let color = PNGColors.transform(for: reader.header)
        var writer = try RowWriter(
            source: reader.size, of: reader.size, alpha: reader.header.has_alpha ? .straight : .opaque,
            orientation: orientation, options)
        if reader.header.is_interlaced {
            // Each pass covers the whole picture.
            let (count, overflows) = (reader.size.width * reader.size.height).multipliedReportingOverflow(by: 8)
            try options.limits.check(bytes: overflows ? .max : count)
            try reader.start()
            try readPasses(reader, into: &writer, options)
        } else {
            try reader.start()
            try readRows(reader, into: &writer, options)
        }
        return try writer.finish(color: color)
    }

    private func rowsPerStep(_ size: PixelSize) -> Int { max(1, Self.bytesPerStep / (size.width * 4)) }

    private func readRows(
        _ reader: borrowing PNGReader, into writer: inout RowWriter, _ options: DecodeOptions
    ) throws(DipperError) {
        while writer.committed < writer.source.height {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: rowsPerStep(writer.source))
            let done = try reader.read(rows, to: base)
            reader.addAlpha(base, rows: done)
            writer.commit(done)
            if done < rows {
                guard options.allowsPartial, writer.committed > 0 else { throw PNGReader.truncated }
                return
            }
        }
    }

    private func readPasses(
        _ reader: borrowing PNGReader, into writer: inout RowWriter, _ options: DecodeOptions
    ) throws(DipperError) {
        let size = reader.size
        let picture = try PixelScratch(byteCount: size.width * size.height * 4)
        let rowsPerStep = rowsPerStep(size)
        // After the first pass each row holds some pixels.
        var known = size.height
        passes: for pass in 0..<7 {
            var y = 0
            while y < size.height {
                try options.checkCancelled()
                let rows = min(rowsPerStep, size.height - y)
                let done = try reader.read(
                    rows, to: picture.base + y * size.width * 4, fillsBlocks: options.allowsPartial)
                y += done
                if done < rows {
                    if pass == 0 { known = y }
                    guard options.allowsPartial, known > 0 else { throw PNGReader.truncated }
                    break passes
                }
            }
        }
        while writer.committed < known {
            try options.checkCancelled()
            let (base, rows) = writer.memory(rows: min(rowsPerStep, known - writer.committed))
            let source = picture.base + writer.committed * size.width * 4
            reader.addAlpha(source, rows: rows)
            base.copyMemory(from: source, byteCount: rows * size.width * 4)
            writer.commit(rows)
        }
    }
}

private struct PNGReader: ~Copyable {
    let header: dipper_png_header
    private let reader: OpaquePointer

    /// In bytes, for one chunk other than pixels.
    private static let largestChunk = 8 << 20

    /// Opens a file and reads it up to the pixels.
    /// - Parameters:
    ///   - bytes: the file, at an address that stays while the reader lives.
    ///   - mayEndEarly: whether to read an incomplete last chunk as far as it goes.
    init(_ bytes: UnsafeRawBufferPointer, mayEndEarly: Bool) throws(DipperError) {
        let start = bytes.bindMemory(to: UInt8.self)
        guard let base = start.baseAddress else { throw .undecodable.with(detail: "there are no bytes") }
        guard let reader = dipper_png_open(base, start.count, mayEndEarly) else { throw Self.noMemory }
        var header = dipper_png_header()
        let status = dipper_png_read_header(reader, Self.largestChunk, &header)
        guard status == DIPPER_PNG_OK else {
            let error = Self.error(status, reader)
            dipper_png_close(reader)
            throw error
        }
        self.reader = reader
        self.header = header
    }

    deinit {
        dipper_png_close(reader)
    }

    var size: PixelSize { PixelSize(width: Int(header.width), height: Int(header.height)) }

    func start() throws(DipperError) {
        let status = dipper_png_start(reader, header.has_alpha ? 4 : 3)
        guard status == DIPPER_PNG_OK else { throw Self.error(status, reader) }
    }

    /// Reads the next rows of RGBA, without gaps, and returns their number: fewer than asked for if the bytes end too
    /// early. In an interlaced picture these are rows of one pass, and with `fillsBlocks` each pixel is repeated over
    /// its neighbours that have not arrived. For a file without alpha, call ``addAlpha(_:rows:)`` afterwards, once for
    /// all passes.
    func read(_ rows: Int, to memory: UnsafeMutableRawPointer, fillsBlocks: Bool = false) throws(DipperError) -> Int {
        var done = 0
        let status = dipper_png_read_rows(
            reader, memory.assumingMemoryBound(to: UInt8.self) + gap, size.width * 4, rows, fillsBlocks, &done)
        guard status == DIPPER_PNG_OK || status == DIPPER_PNG_TRUNCATED else { throw Self.error(status, reader) }
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

    /// The number of bytes left free at the start of a row.
    private var gap: Int { header.has_alpha ? 0 : size.width }

    static let truncated = DipperError.undecodable.with(detail: "the bytes end too early")
    private static let noMemory = DipperError.imageTooLarge.with(detail: "there is no memory")

    private static func error(_ status: dipper_png_status, _ reader: OpaquePointer) -> DipperError {
        switch status {
        case DIPPER_PNG_TRUNCATED: truncated
        case DIPPER_PNG_NO_MEMORY: noMemory
        default: .undecodable.with(detail: String(cString: dipper_png_message(reader)))
        }
    }
}

/// The rule of PNG, third edition, section 4.3: `sRGB` needs no conversion, or else a profile (`iCCP`) counts, or else
/// `gAMA` and `cHRM`.
private enum PNGColors {
    /// Within this distance values count as those of sRGB, where 100,000 is 1. Programs write such values next to the
    /// `sRGB` chunk or in its place.
    private static let tolerance: Int32 = 1000
    private static let gammaOfSRGB: Int32 = 45455
    private static let chromaticitiesOfSRGB: [Int32] = [31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000]

    /// `nil` if no conversion is needed.
    static func transform(for header: dipper_png_header) -> ColorTransform? {
        let source = header.is_grey ? ColorTransform.Source.grey : .rgb
        // libpng also reports the usual sRGB profiles as `sRGB`.
        if header.is_srgb { return nil }
        if let profile = header.profile {
            return ColorTransform.shared(icc: Data(bytes: profile, count: Int(header.profile_length)), for: source)
        }
        guard let profile = profile(of: header) else { return nil }
        return ColorTransform.shared(icc: profile, for: source)
    }

    /// `nil` if gamma and primaries are those of sRGB, missing, or not plausible.
    private static func profile(of header: dipper_png_header) -> Data? {
        let found = withUnsafeBytes(of: header.chromaticities) { Array($0.bindMemory(to: Int32.self)) }
        let chromaticities = header.has_chromaticities ? found : chromaticitiesOfSRGB
        let gamma = header.has_gamma ? header.gamma : gammaOfSRGB
        guard header.has_gamma || header.has_chromaticities else { return nil }
        let usual = zip(chromaticities, chromaticitiesOfSRGB).allSatisfy { isNear($0, $1) }
        if usual, isNear(gamma, gammaOfSRGB) { return nil }
        // Exponents from 0.1 to 10.
        guard (10_000...1_000_000).contains(gamma) else { return nil }

        func point(_ index: Int) -> cmsCIExyY {
            cmsCIExyY(x: Double(chromaticities[index]) / 100_000, y: Double(chromaticities[index + 1]) / 100_000, Y: 1)
        }
        guard let context = cmsCreateContext(nil, nil) else { return nil }
        defer { cmsDeleteContext(context) }
        // A file with primaries but without a gamma has the curve of sRGB.
        let curve =
            header.has_gamma
            ? cmsBuildGamma(context, 100_000 / Double(gamma))
            : cmsBuildParametricToneCurve(context, 4, [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045])
        guard let curve else { return nil }
        defer { cmsFreeToneCurve(curve) }
        var white = point(0)
        var primaries = cmsCIExyYTRIPLE(Red: point(2), Green: point(4), Blue: point(6))
        var curves: [OpaquePointer?] = [curve, curve, curve]
        guard let profile = cmsCreateRGBProfileTHR(context, &white, &primaries, &curves) else { return nil }
        defer { cmsCloseProfile(profile) }
        var length: UInt32 = 0
        guard cmsSaveProfileToMem(profile, nil, &length) != 0, length > 0 else { return nil }
        var data = Data(count: Int(length))
        let isSaved = data.withUnsafeMutableBytes { cmsSaveProfileToMem(profile, $0.baseAddress, &length) != 0 }
        return isSaved ? data : nil
    }

    private static func isNear(_ a: Int32, _ b: Int32) -> Bool { (b - tolerance...b + tolerance).contains(a) }
}
