#if AVIF
    import CAVIF
    import CLCMS
    import Foundation

    /// Colour primaries (8.1) and transfer characteristics (8.2) as numbered by ITU-T H.273.
    struct CodedColor {
        let primaries: Int
        let transfer: Int

        /// An ICC profile of these colours; `nil` if they are close to sRGB or the transfer characteristics are not
        /// known.
        var profile: Data? {
            guard !isSRGB, let curve else { return nil }
            defer { cmsFreeToneCurve(curve) }
            var values = [Float](repeating: 0, count: 8)
            avifColorPrimariesGetValues(avifColorPrimaries(primaries), &values)
            func point(_ index: Int) -> cmsCIExyY {
                cmsCIExyY(x: Double(values[index]), y: Double(values[index + 1]), Y: 1)
            }
            var white = point(6)
            var colors = cmsCIExyYTRIPLE(Red: point(0), Green: point(2), Blue: point(4))
            var curves: [OpaquePointer?] = [curve, curve, curve]
            guard let profile = cmsCreateRGBProfile(&white, &colors, &curves) else { return nil }
            defer { cmsCloseProfile(profile) }
            return Self.bytes(of: profile)
        }

        /// Whether the colours are treated as sRGB. The transfer function of video counts as that of sRGB if the
        /// primaries are those of sRGB, because viewers display such files this way.
        private var isSRGB: Bool {
            [0, 1, 2].contains(primaries) && [0, 1, 2, 6, 13, 14, 15].contains(transfer)
        }

        /// The transfer function, which the caller must free; `nil` for an unknown one.
        private var curve: OpaquePointer? {
            switch transfer {
            case 1, 6, 14, 15: Self.parametric([1 / 0.45, 1 / 1.099, 0.099 / 1.099, 1 / 4.5, 0.081])
            case 4: cmsBuildGamma(nil, 2.2)
            case 5: cmsBuildGamma(nil, 2.8)
            case 8: cmsBuildGamma(nil, 1)
            case 16: Self.sampled(Self.pq)
            case 18: Self.sampled(Self.hlg)
            case 0, 2, 13: Self.parametric([2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045])
            default: nil
            }
        }

        /// Returns the curve Y = (aX + b)^g for X from d on, and Y = cX below; the parameters are g, a, b, c, d.
        private static func parametric(_ parameters: [Double]) -> OpaquePointer? {
            cmsBuildParametricToneCurve(nil, 4, parameters)
        }

        private static func sampled(_ light: (Double) -> Double) -> OpaquePointer? {
            let table = (0..<4096).map { UInt16((min(1, max(0, light(Double($0) / 4095))) * 65535).rounded()) }
            return cmsBuildTabulatedToneCurve16(nil, UInt32(table.count), table)
        }

        /// Returns the light for a PQ signal (SMPTE ST 2084), with white of 203 cd/m² as 1 (ITU-R BT.2408).
        private static func pq(_ signal: Double) -> Double {
            let root = pow(signal, 1 / 78.84375)
            let ratio = max(0, root - 0.8359375) / (18.8515625 - 18.6875 * root)
            return pow(ratio, 1 / 0.1593017578125) * 10_000 / 203
        }

        /// Returns the light for an HLG signal (ARIB STD-B67), with white at three quarters of the signal as 1 (ITU-R
        /// BT.2408).
        private static func hlg(_ signal: Double) -> Double {
            func scene(_ signal: Double) -> Double {
                signal <= 0.5 ? signal * signal / 3 : (exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
            }
            return pow(scene(signal) / scene(0.75), 1.2)
        }

        private static func bytes(of profile: cmsHPROFILE) -> Data? {
            var count: UInt32 = 0
            guard cmsSaveProfileToMem(profile, nil, &count) != 0 else { return nil }
            var data = Data(count: Int(count))
            let isSaved = data.withUnsafeMutableBytes { cmsSaveProfileToMem(profile, $0.baseAddress, &count) }
            return isSaved != 0 ? data : nil
        }
    }
#endif
