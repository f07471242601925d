import CLCMS
import Foundation

/// Colour primaries (8.1) and transfer characteristics (8.2) as numbered by ITU-T H.273.
struct CodedColor: Sendable, Hashable {
    let primaries: Int
    let transfer: Int

    /// `nil` if the colours are close to sRGB or the transfer characteristics are not known.
    var profile: Data? {
        if isSRGB { return nil }
        return ColorTransform.profile(Self.chromaticities[primaries] ?? Self.chromaticities[1] ?? [], curve)
    }

    /// Whether the numbers mean something that ``profile`` knows.
    var isKnown: Bool {
        Self.chromaticities[primaries] != nil && [1, 4, 5, 6, 8, 13, 14, 15, 16, 18].contains(transfer)
    }

    /// The x and y of white, red, green and blue.
    private static let chromaticities: [Int: [Double]] = [
        1: [0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06], 4: [0.31, 0.316, 0.67, 0.33, 0.21, 0.71, 0.14, 0.08],
        5: [0.3127, 0.329, 0.64, 0.33, 0.29, 0.6, 0.15, 0.06],
        6: [0.3127, 0.329, 0.63, 0.34, 0.31, 0.595, 0.155, 0.07],
        7: [0.3127, 0.329, 0.63, 0.34, 0.31, 0.595, 0.155, 0.07],
        8: [0.31, 0.316, 0.681, 0.319, 0.243, 0.692, 0.145, 0.049],
        9: [0.3127, 0.329, 0.708, 0.292, 0.17, 0.797, 0.131, 0.046], 10: [1.0 / 3, 1.0 / 3, 1, 0, 0, 1, 0, 0],
        11: [0.314, 0.351, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06],
        12: [0.3127, 0.329, 0.68, 0.32, 0.265, 0.69, 0.15, 0.06],
        22: [0.3127, 0.329, 0.63, 0.34, 0.295, 0.605, 0.155, 0.077],
    ]

    /// Whether the colours count as sRGB. With its primaries, video's transfer function does too, as in viewers.
    private var isSRGB: Bool {
        [0, 1, 2].contains(primaries) && [0, 1, 2, 6, 13, 14, 15].contains(transfer)
    }

    /// The caller must free it; `nil` for an unknown transfer function.
    private var curve: OpaquePointer? {
        switch transfer {
        case 1, 6, 14, 15: ColorTransform.curve([1 / 0.45, 1 / 1.099, 0.099 / 1.099, 1 / 4.5, 0.081])
        case 4: cmsBuildGamma(nil, 2.2)
        case 5: cmsBuildGamma(nil, 2.8)
        case 8: cmsBuildGamma(nil, 1)
        case 16: Self.sampled(Self.pq)
        case 18: Self.sampled(Self.hlg)
        case 0, 2, 13: ColorTransform.sRGBCurve()
        default: nil
        }
    }

    private static func sampled(_ light: (Double) -> Double) -> OpaquePointer? {
        let table = (0..<4096).map { UInt16((min(1, max(0, light(Double($0) / 4095))) * 65535).rounded()) }
        return cmsBuildTabulatedToneCurve16(nil, UInt32(table.count), table)
    }

    /// The light for a PQ signal (SMPTE ST 2084), with white of 203 cd/m² as 1 (ITU-R BT.2408).
    private static func pq(_ signal: Double) -> Double {
        let root = pow(signal, 1 / 78.84375)
        let ratio = max(0, root - 0.8359375) / (18.8515625 - 18.6875 * root)
        return pow(ratio, 1 / 0.1593017578125) * 10_000 / 203
    }

    /// The light for an HLG signal (ARIB STD-B67), with white at three quarters of the signal as 1 (ITU-R BT.2408).
    private static func hlg(_ signal: Double) -> Double {
        func scene(_ signal: Double) -> Double {
            signal <= 0.5 ? signal * signal / 3 : (exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
        }
        return pow(scene(signal) / scene(0.75), 1.2)
    }
}
