import CPixels
import Foundation

extension ImageProcessors {
    /// A processor that changes brightness, contrast, saturation and exposure.
    ///
    /// The changes are made in this order, on colours from 0 to 1 that are not multiplied by alpha:
    /// 1. exposure: light times 2^exposure, where light is the colour decoded by the curve of sRGB (IEC 61966-2-1);
    /// 2. saturation: g + (c − g) × saturation, where g = 0.2126 red + 0.7152 green + 0.0722 blue;
    /// 3. contrast: (c − ½) × contrast + ½;
    /// 4. brightness: c + brightness.
    ///
    /// Saturation, contrast and brightness change encoded colours, as CSS filters do. After exposure, and at the end,
    /// values outside 0…1 become the nearer bound.
    public struct ColorControls: ImageProcessor, Hashable {
        /// The amount added to each colour, usually −1…1; 0 changes nothing.
        public let brightness: Double
        /// The contrast factor: 1 changes nothing, 0 makes everything grey, a factor below 0 exchanges light and dark.
        public let contrast: Double
        /// The saturation factor: 1 changes nothing, 0 leaves only grey.
        public let saturation: Double
        /// The exposure in stops: 0 changes nothing, 1 doubles the light.
        public let exposure: Double

        /// Creates a processor. Values that are not given change nothing.
        public init(brightness: Double = 0, contrast: Double = 1, saturation: Double = 1, exposure: Double = 0) {
            self.brightness = brightness
            self.contrast = contrast
            self.saturation = saturation
            self.exposure = exposure
        }

        /// The identifier, for example `colors(0.0,1.0,0.0,0.7)`.
        public var identifier: String { "colors(\(brightness),\(contrast),\(saturation),\(exposure))" }

        /// Returns the picture with changed colours.
        /// - Throws: `DipperError.processingFailed` for a value that is NaN or beyond ±1,000,000.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            // Single-precision sums could not hold the results of larger values.
            guard [brightness, contrast, saturation, exposure].allSatisfy({ abs($0) <= 1_000_000 }) else {
                throw .processingFailed
            }
            guard self != ColorControls() else { return image }
            // Without saturation, each colour is the grey of the same brightness.
            var matrix = ColorMatrix(monochrome: .white, intensity: 1 - saturation)
            matrix.scale(by: contrast, adding: (1 - contrast) / 2 + brightness)
            return try matrix.apply(to: image, curve: exposure == 0 ? nil : Self.curve(exposure), context)
        }

        private static func curve(_ exposure: Double) -> [Float] {
            let gain = exp2(exposure)
            // Black stays black: zero times an infinite gain is NaN, which is encoded as 0.
            return (0..<256).map { Float(Color.encoded(Color.light(Double($0) / 255) * gain) * 255) }
        }
    }

    /// A processor that removes the colour of the light in which a picture was taken.
    ///
    /// Each colour is multiplied by gain^(1 ÷ 2.2), which multiplies its light by the gain if the gamma is 2.2. The
    /// gain is the light of a black body of 6,500 K divided by that of a black body of ``temperature``. All gains are
    /// divided by one number so that grey keeps its luminance. Values above 1 become 1.
    ///
    /// The chromaticity of a black body is Krystek's approximation (*An algorithm to calculate correlated colour
    /// temperature*, Color Research & Application 10, 1985). The matrix to linear red, green and blue is that of sRGB
    /// (IEC 61966-2-1).
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
        /// - Throws: `DipperError.processingFailed` for a temperature or a tint outside its range.
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

        /// Linear red, green and blue of a black body whose luminance is 1.
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

    /// A processor that leaves shades of one colour, by default black and white. Each pixel becomes the colour times
    /// the pixel's brightness, which is 0.2126 red + 0.7152 green + 0.0722 blue of the encoded values.
    ///
    /// ```swift
    /// let grey = ImageRequest(url).processed(by: .monochrome)
    /// let sepia = ImageRequest(url).processed(by: .monochrome(Color(hex: 0xffd0a0), intensity: 0.8))
    /// ```
    public struct Monochrome: ImageProcessor, Hashable {
        /// The colour that white becomes. Its alpha is ignored.
        public let color: Color
        /// The share of the shades in the result, clamped to 0…1: 0 leaves the picture, 1 only the shades.
        public let intensity: Double

        /// Creates a processor, by default for black and white.
        public init(_ color: Color = .white, intensity: Double = 1) {
            self.color = color
            self.intensity = intensity
        }

        /// The identifier, for example `monochrome(ffffffff,1.0)`.
        public var identifier: String { "monochrome(\(color.with(alpha: 1).identifier),\(intensity))" }

        /// Returns the picture in shades of the colour.
        /// - Throws: `DipperError.processingFailed` for an intensity that is NaN.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            guard !intensity.isNaN else { throw .processingFailed }
            let intensity = min(max(intensity, 0), 1)
            guard intensity > 0 else { return image }
            return try ColorMatrix(monochrome: color, intensity: intensity).apply(to: image, context)
        }
    }
}

extension ImageProcessor where Self == ImageProcessors.ColorControls {
    /// Returns an ``ImageProcessors/ColorControls`` processor.
    public static func colorControls(
        brightness: Double = 0, contrast: Double = 1, saturation: Double = 1, exposure: Double = 0
    ) -> Self {
        Self(brightness: brightness, contrast: contrast, saturation: saturation, exposure: exposure)
    }
}

extension ImageProcessor where Self == ImageProcessors.WhiteBalance {
    /// Returns an ``ImageProcessors/WhiteBalance`` processor for a temperature in kelvin and a tint.
    public static func whiteBalance(temperature: Double = 6500, tint: Double = 0) -> Self {
        Self(temperature: temperature, tint: tint)
    }
}

extension ImageProcessor where Self == ImageProcessors.Monochrome {
    /// An ``ImageProcessors/Monochrome`` processor for black and white.
    public static var monochrome: Self { Self() }
    /// Returns an ``ImageProcessors/Monochrome`` processor for shades of a colour.
    public static func monochrome(_ color: Color, intensity: Double = 1) -> Self { Self(color, intensity: intensity) }
}

/// Makes colours from premultiplied colours and alpha: a constant to be added is in the column of alpha.
private struct ColorMatrix {
    /// The shares of the picture's red, green, blue and alpha in the result, in this order.
    private(set) var columns: [SIMD4<Double>] = [
        SIMD4(1, 0, 0, 0), SIMD4(0, 1, 0, 0), SIMD4(0, 0, 1, 0), SIMD4(0, 0, 0, 1),
    ]

    /// The shares of red, green and blue in the brightness of a colour (ITU-R BT.709).
    static let luma = SIMD3(0.2126, 0.7152, 0.0722)

    init(gains: SIMD3<Double>) {
        for index in 0..<3 { columns[index] *= gains[index] }
    }

    mutating func scale(by factor: Double, adding sum: Double) {
        for index in 0..<4 { columns[index] *= SIMD4(factor, factor, factor, 1) }
        columns[3] += SIMD4(sum, sum, sum, 0)
    }

    /// The shades are as bright as the picture; the intensity is their share in the result, below 0 to take them away.
    init(monochrome color: Color, intensity: Double) {
        let color = SIMD4(color.red, color.green, color.blue, 0)
        for index in 0..<3 {
            columns[index] = columns[index] * (1 - intensity) + color * Self.luma[index] * intensity
        }
    }

    /// `curve` replaces each of the 256 values of a straight colour by a value of 0…255 before the matrix is applied.
    func apply(
        to image: Image, curve: [Float]? = nil, _ context: ProcessingContext
    ) throws(DipperError) -> Image {
        let numbers = columns.flatMap { column in (0..<4).map { Float(column[$0]) } }
        return try image.edited(context, isOpaque: image.isOpaque) { row, _ in
            pixels_recolor(row, image.width, numbers, curve)
        }
    }
}
