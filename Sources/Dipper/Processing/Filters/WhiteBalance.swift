import Foundation

extension ImageProcessors {
    /// A processor that removes the colour of the light in which a picture was taken.
    ///
    /// Each colour is multiplied by gain^(1 ÷ 2.2), which multiplies its light by the gain if the gamma is 2.2. The gain
    /// is the light of a black body of 6,500 K divided by that of a black body of ``temperature``. All gains are divided
    /// by one number so that grey keeps its luminance. Values above 1 become 1.
    ///
    /// The chromaticity of a black body is Krystek's approximation (*An algorithm to calculate correlated colour
    /// temperature*, Color Research & Application 10, 1985). The matrix to linear red, green and blue is that of sRGB
    /// (IEC 61966-2-1).
    ///
    /// ```swift
    /// let daylight = ImageRequest(url).processed(by: .whiteBalance(temperature: 3200))
    /// ```
    public struct WhiteBalance: ImageProcessor, Hashable {
        /// The temperature of the light in kelvin, 2,000…15,000. At 6,500 the temperature changes nothing; a lower
        /// temperature makes the picture cooler, a higher temperature makes the picture warmer.
        public let temperature: Double
        /// The amount of green that is taken away, −1,000…1,000 and usually −150…150: 100 halves the green light, which
        /// makes the picture more magenta, and −100 doubles the green light.
        public let tint: Double

        /// Creates a processor. Values that are not given change nothing.
        public init(temperature: Double = 6500, tint: Double = 0) {
            self.temperature = temperature
            self.tint = tint
        }

        /// The identifier, for example `whitebalance(3200.0,0.0)`.
        public var identifier: String { "whitebalance(\(temperature),\(tint))" }

        /// Returns the picture with balanced colours.
        /// - Throws: `DipperError.processingFailed` for a temperature or a tint outside its range;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            // Blue is outside sRGB below 1,900 K; the approximation ends at 15,000 K.
            guard temperature >= 2000, temperature <= 15_000, abs(tint) <= 1000 else { throw .processingFailed }
            guard self != WhiteBalance() else { return image }
            var gains = Self.light(6500) / Self.light(temperature)
            gains.y *= exp2(-tint / 100)
            gains /= (gains * ColorMatrix.luma).sum()
            for index in 0..<3 { gains[index] = pow(gains[index], 1 / 2.2) }
            return try ColorMatrix(gains: gains).apply(to: image, context)
        }

        /// Returns linear red, green and blue of a black body whose luminance is 1.
        private static func light(_ temperature: Double) -> SIMD3<Double> {
            func polynomial(_ a: Double, _ b: Double, _ c: Double) -> Double {
                a + b * temperature + c * temperature * temperature
            }
            // The chromaticity in CIE 1960 UCS.
            let u =
                polynomial(0.860117757, 1.54118254e-4, 1.28641212e-7)
                / polynomial(1, 8.42420235e-4, 7.08145163e-7)
            let v =
                polynomial(0.317398726, 4.22806245e-5, 4.20481691e-8)
                / polynomial(1, -2.89741816e-5, 1.61456053e-7)
            // CIE XYZ with Y = 1.
            let x = 1.5 * u / v
            let z = (4 - u - 10 * v) / (2 * v)
            var light = SIMD3<Double>(-1.5372, 1.8758, -0.2040)
            light += SIMD3<Double>(3.2406, -0.9689, 0.0557) * x
            light += SIMD3<Double>(-0.4986, 0.0415, 1.0570) * z
            return light
        }
    }
}
