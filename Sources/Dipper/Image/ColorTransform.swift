import CLCMS
import CPixels
import Foundation
import Synchronization

/// A conversion of colours from an ICC profile to sRGB, by Little CMS with the perceptual intent.
// Safe to share: the transform has no cache and does not change after its creation.
final class ColorTransform: @unchecked Sendable {
    enum Source: Hashable {
        case grey
        case rgb
        /// If `isInverted`, the bytes are 255 minus the ink.
        case cmyk(isInverted: Bool)
    }

    /// In bytes. A larger profile is ignored.
    static let largestProfile = 8 << 20

    private let context: cmsContext
    private let transform: cmsHTRANSFORM
    /// The colour of each grey, for a profile of greys. Looking it up is faster than the transform.
    private let greys: [SIMD4<UInt8>]
    private let takesCMYK: Bool

    /// `nil` if the profile is broken, too large, for other colours than the picture's, or nearly sRGB itself.
    init?(icc: Data, for source: Source = .rgb) {
        // A context for each transform needs no lock while profiles are read.
        guard icc.count <= Self.largestProfile, let context = cmsCreateContext(nil, nil) else { return nil }
        guard let (transform, input) = Self.transform(icc, source, context) else {
            cmsDeleteContext(context)
            return nil
        }
        self.context = context
        self.transform = transform
        takesCMYK = input == Layout.cmyk || input == Layout.invertedCMYK
        var greys: [SIMD4<UInt8>] = []
        if input == Layout.grey {
            greys = [SIMD4<UInt8>](repeating: .zero, count: 256)
            cmsDoTransform(transform, [UInt8](0...255), &greys, 256)
        }
        self.greys = greys
        if changesNothing(of: source) { return nil }
    }

    deinit {
        cmsDeleteTransform(transform)
        cmsDeleteContext(context)
    }

    /// Converts a row in place: of RGBA, or of CMYK, which becomes opaque RGBA. Both have four bytes for each pixel.
    func apply(to row: UnsafeMutableRawPointer, pixels: Int, isOpaque: Bool) {
        let row = row.assumingMemoryBound(to: UInt8.self)
        if !isOpaque { pixels_unpremultiply(row, row, pixels) }
        if greys.isEmpty {
            cmsDoTransform(transform, row, row, cmsUInt32Number(clamping: pixels))
        } else {
            for start in stride(from: 0, to: pixels * 4, by: 4) {
                let color = greys[Int(row[start])]
                row[start] = color.x
                row[start + 1] = color.y
                row[start + 2] = color.z
            }
        }
        // The transform does not write the fourth byte.
        if takesCMYK { for start in stride(from: 0, to: pixels * 4, by: 4) { row[start + 3] = 255 } }
        if !isOpaque { _ = pixels_premultiply(row, pixels) }
    }

    func apply(to picture: borrowing PixelBuffer, isOpaque: Bool, _ options: DecodeOptions) throws(DipperError) {
        for y in 0..<picture.size.height {
            if y % DecodeOptions.rowsAtATime == 0 { try options.checkCancelled() }
            apply(to: picture.row(y), pixels: picture.size.width, isOpaque: isOpaque)
        }
    }

    private static func transform(
        _ icc: Data, _ source: Source, _ context: cmsContext
    ) -> (transform: cmsHTRANSFORM, input: UInt32)? {
        let opened = icc.withUnsafeBytes {
            cmsOpenProfileFromMemTHR(context, $0.baseAddress, cmsUInt32Number(clamping: $0.count))
        }
        guard let profile = opened else { return nil }
        defer { cmsCloseProfile(profile) }
        leaveOutElements(of: profile)
        guard let sRGB = cmsCreate_sRGBProfileTHR(context) else { return nil }
        defer { cmsCloseProfile(sRGB) }
        let input: UInt32
        switch (cmsGetColorSpace(profile), source) {
        // A grey picture with an RGB profile has the greys of that profile.
        case (cmsSigRgbData, .rgb), (cmsSigRgbData, .grey): input = Layout.rgba
        case (cmsSigGrayData, .grey): input = Layout.grey
        case (cmsSigCmykData, .cmyk(let isInverted)): input = isInverted ? Layout.invertedCMYK : Layout.cmyk
        default: return nil
        }
        let transform = cmsCreateTransformTHR(
            context, profile, input, sRGB, Layout.rgba, cmsUInt32Number(INTENT_PERCEPTUAL),
            cmsUInt32Number(cmsFLAGS_NOCACHE))
        return transform.map { ($0, input) }
    }

    /// Deletes the tags with multi-process elements (ICC.1:2022, 9.2.26 to 9.2.29), which are alternatives to other
    /// tags; browsers ignore them too. Little CMS accepts a million elements in a few thousand compressed bytes, takes
    /// time in the square of their number, and cannot be stopped.
    private static func leaveOutElements(of profile: cmsHPROFILE) {
        for tag in [cmsSigDToB0Tag, cmsSigDToB1Tag, cmsSigDToB2Tag, cmsSigDToB3Tag] {
            // A tag table may list the same tag twice.
            while cmsWriteTag(profile, tag, nil) != 0 {}
        }
    }

    /// lcms2.h defines the layouts with nested macros that Swift cannot import.
    private enum Layout {
        static let grey = layout(PT_GRAY, channels: 1)
        static let rgba = layout(PT_RGB, channels: 3) | 1 << 7
        static let cmyk = layout(PT_CMYK, channels: 4)
        static let invertedCMYK = cmyk | 1 << 13

        private static func layout(_ space: Int32, channels: UInt32) -> UInt32 {
            UInt32(space) << 16 | channels << 3 | 1
        }
    }

    /// Whether no colour of a sample changes by more than one step, as with the many profiles that describe sRGB.
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

    /// Returns ``init(icc:for:)`` from a cache of the 16 transforms used last: many pictures have the same profile.
    static func shared(icc: Data, for source: Source = .rgb) -> ColorTransform? {
        guard !icc.isEmpty, icc.count <= largestProfile else { return nil }
        let key = key(icc, source)
        let known = cache.withLock { entries -> Entry? in
            guard let index = entries.firstIndex(where: { $0.key == key }) else { return nil }
            entries.append(entries.remove(at: index))
            return entries.last
        }
        if let known { return known.transform }
        // Two threads may create the same transform at once. This is better than one waiting for the other.
        let transform = ColorTransform(icc: icc, for: source)
        let dropped = cache.withLock { entries -> Entry? in
            entries.append((key, transform))
            return entries.count > 16 ? entries.removeFirst() : nil
        }
        withExtendedLifetime(dropped) {}
        return transform
    }

    /// The transform is `nil` if the colours need no conversion or the profile cannot be used.
    private typealias Entry = (key: [Int], transform: ColorTransform?)

    /// The entry used last comes last.
    private static let cache = Mutex<[Entry]>([])

    private static func key(_ icc: Data, _ source: Source) -> [Int] { icc.mark + [source.hashValue] }

    /// Returns the bytes of an RGB profile. `chromaticities` are x and y of white, red, green and blue. The curve of
    /// all three colours is freed; `nil` gives no profile.
    static func profile(_ chromaticities: [Double], _ curve: OpaquePointer?) -> Data? {
        guard let curve else { return nil }
        defer { cmsFreeToneCurve(curve) }
        func point(_ index: Int) -> cmsCIExyY {
            cmsCIExyY(x: chromaticities[index], y: chromaticities[index + 1], Y: 1)
        }
        var white = point(0)
        var primaries = cmsCIExyYTRIPLE(Red: point(2), Green: point(4), Blue: point(6))
        var curves: [OpaquePointer?] = [curve, curve, curve]
        guard let profile = cmsCreateRGBProfile(&white, &primaries, &curves) else { return nil }
        defer { cmsCloseProfile(profile) }
        var length: UInt32 = 0
        guard cmsSaveProfileToMem(profile, nil, &length) != 0, length > 0 else { return nil }
        var data = Data(count: Int(length))
        let isSaved = data.withUnsafeMutableBytes { cmsSaveProfileToMem(profile, $0.baseAddress, &length) != 0 }
        return isSaved ? data : nil
    }

    /// The curve of sRGB. The caller must free it.
    static func sRGBCurve() -> OpaquePointer? { curve([2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045]) }

    /// Y = (aX + b)^g for X from d on, and Y = cX below, for g, a, b, c, d in this order. The caller must free it.
    static func curve(_ parameters: [Double]) -> OpaquePointer? { cmsBuildParametricToneCurve(nil, 4, parameters) }
}

extension Data {
    /// The length, and two hashes that depend on the random seed of the process: nobody outside can make other bytes with
    /// the same mark.
    var mark: [Int] {
        [1, 2].reduce(into: [count]) { mark, salt in
            var hasher = Hasher()
            hasher.combine(salt)
            withUnsafeBytes { hasher.combine(bytes: $0) }
            mark.append(hasher.finalize())
        }
    }
}
