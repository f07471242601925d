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
    ///
    /// ```swift
    /// let faded = ImageRequest(url).processed(by: .colorControls(brightness: 0.1, saturation: 0.4))
    /// ```
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
        /// - Throws: `DipperError.processingFailed` for a value that is NaN or beyond ±1,000,000;
        ///   `DipperError.imageTooLarge`, `DipperError.cancelled`.
        public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
            // Single-precision sums could not hold the results of larger values.
            guard [brightness, contrast, saturation, exposure].allSatisfy({ abs($0) <= 1_000_000 }) else {
                throw .processingFailed
            }
            guard self != ColorControls() else { return image }
            var matrix = ColorMatrix(saturation: saturation)
            matrix.scale(by: contrast, adding: (1 - contrast) / 2 + brightness)
            return try matrix.apply(to: image, curve: exposure == 0 ? nil : Self.curve(exposure), context)
        }

        private static func curve(_ exposure: Double) -> [Float] {
            let gain = exp2(exposure)
            return (0..<256).map { value in
                let color = Double(value) / 255
                let light = color <= 0.04045 ? color / 12.92 : pow((color + 0.055) / 1.055, 2.4)
                let exposed = min(1, light * gain)
                let encoded = exposed <= 0.0031308 ? exposed * 12.92 : 1.055 * pow(exposed, 1 / 2.4) - 0.055
                // Black stays black: zero times an infinite gain would be NaN.
                return value == 0 ? 0 : Float(encoded * 255)
            }
        }
    }
}
