import CLCMS
import CodecShims
import Foundation

/// The conversion of a PNG file's colours to sRGB (PNG, third edition, section 4.3): `sRGB` needs none, or else a
/// profile (`iCCP`) counts, or else `gAMA` and `cHRM`.
enum PNGColors {
    /// The tolerance within which values count as those of sRGB, where 100,000 is 1. Programs write such values next to
    /// the `sRGB` chunk or in its place.
    private static let tolerance: Int32 = 1000
    private static let gammaOfSRGB: Int32 = 45455
    private static let chromaticitiesOfSRGB: [Int32] = [31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000]

    /// Returns the transform to sRGB; `nil` if none is needed.
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

    /// Returns a profile of the file's gamma and primaries; `nil` if they are those of sRGB, missing, or not plausible.
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
