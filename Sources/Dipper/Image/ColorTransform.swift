import CLCMS
import Foundation
import Synchronization

/// A conversion of colours from an ICC profile to sRGB, by Little CMS with the perceptual intent.
// Safe to share: the transform has no cache and does not change after its creation.
final class ColorTransform: @unchecked Sendable {
    /// Before the decoder converts the colours to RGBA.
    enum Source: Hashable {
        case grey
        case rgb
        /// If `isInverted`, the bytes are 255 minus the ink.
        case cmyk(isInverted: Bool)
    }

    /// In bytes. A larger profile is ignored.
    static let largestProfile = 8 << 20

    private enum Work {
        case rgb(cmsHTRANSFORM)
        case cmyk(cmsHTRANSFORM)
        /// A colour for each grey.
        case grey([SIMD4<UInt8>])
    }

    private let work: Work
    private let context: cmsContext

    /// `nil` if the profile is broken, too large, for other colours than the picture's, or sRGB itself, so that no
    /// conversion is needed.
    convenience init?(icc: Data, for source: Source = .rgb) {
        // A context for each transform needs no lock while profiles are read.
        guard icc.count <= Self.largestProfile, let context = cmsCreateContext(nil, nil) else { return nil }
        guard let work = Self.work(icc, source, context) else {
            cmsDeleteContext(context)
            return nil
        }
        self.init(work: work, context: context)
        if changesNothing(of: source) { return nil }
    }

    private init(work: Work, context: cmsContext) {
        self.work = work
        self.context = context
    }

    deinit {
        switch work {
        case .rgb(let transform), .cmyk(let transform): cmsDeleteTransform(transform)
        case .grey: break
        }
        cmsDeleteContext(context)
    }

    /// Whether ``apply(toCMYK:pixels:)`` must be called in place of ``apply(to:pixels:isOpaque:)``.
    var takesCMYK: Bool {
        if case .cmyk = work { true } else { false }
    }

    /// Converts a row of premultiplied RGBA in place.
    func apply(to row: UnsafeMutableRawPointer, pixels: Int, isOpaque: Bool) {
        let row = row.assumingMemoryBound(to: UInt8.self)
        if !isOpaque { Alpha.divide(row, pixels) }
        switch work {
        case .rgb(let transform):
            cmsDoTransform(transform, row, row, cmsUInt32Number(clamping: pixels))
        case .grey(let table):
            for start in stride(from: 0, to: pixels * 4, by: 4) {
                let color = table[Int(row[start])]
                row[start] = color.x
                row[start + 1] = color.y
                row[start + 2] = color.z
            }
        case .cmyk: break
        }
        if !isOpaque { Alpha.multiply(row, pixels) }
    }

    /// Converts a row of CMYK to opaque RGBA in place; both have four bytes for each pixel.
    func apply(toCMYK row: UnsafeMutableRawPointer, pixels: Int) {
        guard case .cmyk(let transform) = work else { return }
        cmsDoTransform(transform, row, row, cmsUInt32Number(clamping: pixels))
        let row = row.assumingMemoryBound(to: UInt8.self)
        // The transform does not write the fourth byte.
        for start in stride(from: 0, to: pixels * 4, by: 4) { row[start + 3] = 255 }
    }
}

extension ColorTransform {
    private static func work(_ icc: Data, _ source: Source, _ context: cmsContext) -> Work? {
        let opened = icc.withUnsafeBytes {
            cmsOpenProfileFromMemTHR(context, $0.baseAddress, cmsUInt32Number(clamping: $0.count))
        }
        guard let profile = opened else { return nil }
        defer { cmsCloseProfile(profile) }
        leaveOutElements(of: profile)
        guard let sRGB = cmsCreate_sRGBProfileTHR(context) else { return nil }
        defer { cmsCloseProfile(sRGB) }

        func transform(_ input: UInt32, _ output: UInt32) -> cmsHTRANSFORM? {
            cmsCreateTransformTHR(
                context, profile, input, sRGB, output, cmsUInt32Number(INTENT_PERCEPTUAL),
                cmsUInt32Number(cmsFLAGS_NOCACHE))
        }
        switch (cmsGetColorSpace(profile), source) {
        // A grey picture with an RGB profile has the greys of that profile.
        case (cmsSigRgbData, .rgb), (cmsSigRgbData, .grey):
            return transform(Layout.rgba, Layout.rgba).map { .rgb($0) }
        case (cmsSigGrayData, .grey):
            guard let transform = transform(Layout.grey, Layout.rgba) else { return nil }
            defer { cmsDeleteTransform(transform) }
            let greys = [UInt8](0...255)
            var table = [SIMD4<UInt8>](repeating: .zero, count: 256)
            cmsDoTransform(transform, greys, &table, 256)
            return .grey(table)
        case (cmsSigCmykData, .cmyk(let isInverted)):
            return transform(isInverted ? Layout.invertedCMYK : Layout.cmyk, Layout.rgba).map { .cmyk($0) }
        default:
            return nil
        }
    }

    /// Deletes the tags with multi-process elements (ICC.1:2022, 9.2.26 to 9.2.29), which are alternatives to other
    /// tags.
    ///
    /// Little CMS accepts as many elements as a tag declares: a million of them fit into a few thousand compressed
    /// bytes. Its time grows with the square of their number, and it cannot be stopped. Browsers ignore these tags too.
    private static func leaveOutElements(of profile: cmsHPROFILE) {
        for tag in [cmsSigDToB0Tag, cmsSigDToB1Tag, cmsSigDToB2Tag, cmsSigDToB3Tag] {
            // A tag table may list the same tag twice.
            while cmsWriteTag(profile, tag, nil) != 0 {}
        }
    }

    /// lcms2.h defines the layouts with nested macros that Swift cannot import.
    private enum Layout {
        static let grey = colorSpace(PT_GRAY) | channels(1) | byte
        static let rgba = colorSpace(PT_RGB) | UInt32(1 << 7) | channels(3) | byte
        static let cmyk = colorSpace(PT_CMYK) | channels(4) | byte
        static let invertedCMYK = cmyk | UInt32(1 << 13)

        private static let byte: UInt32 = 1
        private static func channels(_ count: UInt32) -> UInt32 { count << 3 }
        private static func colorSpace(_ space: Int32) -> UInt32 { UInt32(space) << 16 }
    }

    /// Whether the transform changes no colour of a sample by more than one step, as with the many profiles that
    /// describe sRGB.
    private func changesNothing(of source: Source) -> Bool {
        if takesCMYK { return false }
        var colors = (0...255).map { SIMD4<UInt8>(UInt8($0), UInt8($0), UInt8($0), 255) }
        if source == .rgb {
            let steps = stride(from: 0, through: 255, by: 36).map { UInt8($0) }
            for red in steps { for green in steps { for blue in steps { colors.append([red, green, blue, 255]) } } }
        }
        var changed = colors
        changed.withUnsafeMutableBytes { bytes in
            guard let base = bytes.baseAddress else { return }
            apply(to: base, pixels: bytes.count / 4, isOpaque: true)
        }
        return zip(colors, changed).allSatisfy { before, after in
            (0..<3).allSatisfy { abs(Int(before[$0]) - Int(after[$0])) <= 1 }
        }
    }
}

/// Conversion between straight and premultiplied alpha.
private enum Alpha {
    static func divide(_ row: UnsafeMutablePointer<UInt8>, _ pixels: Int) {
        for start in stride(from: 0, to: pixels * 4, by: 4) {
            let alpha = UInt32(row[start + 3])
            if alpha == 0 || alpha == 255 { continue }
            for index in start..<start + 3 {
                row[index] = UInt8(min(255, (UInt32(row[index]) * 255 + alpha / 2) / alpha))
            }
        }
    }

    static func multiply(_ row: UnsafeMutablePointer<UInt8>, _ pixels: Int) {
        for start in stride(from: 0, to: pixels * 4, by: 4) {
            let alpha = UInt32(row[start + 3])
            if alpha == 255 { continue }
            for index in start..<start + 3 { row[index] = UInt8((UInt32(row[index]) * alpha + 127) / 255) }
        }
    }
}

extension ColorTransform {
    /// Returns ``init(icc:for:)`` from a cache of the 16 transforms used last: many pictures have the same profile.
    static func shared(icc: Data, for source: Source = .rgb) -> ColorTransform? {
        guard !icc.isEmpty, icc.count <= largestProfile else { return nil }
        let key = Key(icc, source)
        if let known = cache.withLock({ $0.transform(for: key) }) { return known.transform }
        // Two threads may create the same transform at once. This is better than one waiting for the other.
        let transform = ColorTransform(icc: icc, for: source)
        let dropped = cache.withLock { $0.insert(Entry(key: key, transform: transform)) }
        withExtendedLifetime(dropped) {}
        return transform
    }

    private static let cache = Mutex(Cache())

    /// A profile's length, source and 128 bits of hash. The hash depends on the random seed of the process, so nobody
    /// outside can construct two profiles with the same key.
    private struct Key: Equatable {
        let count: Int
        let source: Source
        let first: Int
        let second: Int

        init(_ icc: Data, _ source: Source) {
            count = icc.count
            self.source = source
            func hash(_ salt: Int) -> Int {
                var hasher = Hasher()
                hasher.combine(salt)
                icc.withUnsafeBytes { hasher.combine(bytes: $0) }
                return hasher.finalize()
            }
            first = hash(1)
            second = hash(2)
        }
    }

    private struct Entry {
        let key: Key
        /// `nil` if the colours need no conversion or the profile cannot be used.
        let transform: ColorTransform?
    }

    /// The most recently used entries, the last one first.
    private struct Cache {
        static let limit = 16
        var entries: [Entry] = []

        mutating func transform(for key: Key) -> Entry? {
            guard let index = entries.firstIndex(where: { $0.key == key }) else { return nil }
            let entry = entries.remove(at: index)
            entries.insert(entry, at: 0)
            return entry
        }

        /// Returns the entry that it displaces, which the caller releases outside the lock.
        mutating func insert(_ entry: Entry) -> Entry? {
            if transform(for: entry.key) != nil { return nil }
            entries.insert(entry, at: 0)
            return entries.count > Self.limit ? entries.removeLast() : nil
        }
    }
}
