import Foundation

/// Brightness, contrast, saturation and exposure.
///
/// In this order, on colours from 0 to 1 that are not multiplied by alpha:
/// 1. exposure: light times 2^exposure, where light is the colour by the curve of sRGB (IEC 61966-2-1);
/// 2. saturation: g + (c − g) × saturation, where g = 0.2126 red + 0.7152 green + 0.0722 blue;
/// 3. contrast: (c − ½) × contrast + ½;
/// 4. brightness: c + brightness.
///
/// The last three are done on colours as they are encoded, as filters of CSS are. What is outside 0…1 after exposure, and
/// at the end, is brought to the nearer end.
public struct ColorControls: ImageProcessor, Hashable {
    /// Added, −1…1; 0 changes nothing.
    public let brightness: Double
    /// 1 changes nothing, 0 makes all grey, below 0 light and dark are exchanged.
    public let contrast: Double
    /// 1 changes nothing, 0 leaves grey.
    public let saturation: Double
    /// In stops; 0 changes nothing, 1 doubles the light.
    public let exposure: Double

    /// Those that are not named change nothing.
    public init(brightness: Double = 0, contrast: Double = 1, saturation: Double = 1, exposure: Double = 0) {
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.exposure = exposure
    }

    /// Such as `colors(0.0,1.0,0.0,0.7)`.
    public var identifier: String { "colors(\(brightness),\(contrast),\(saturation),\(exposure))" }

    /// The processed picture.
    /// - Throws: `DipperError.processingFailed` for what is no number or beyond a million; `DipperError.imageTooLarge`,
    ///   `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        // More would be beyond what sums of single precision hold.
        guard [brightness, contrast, saturation, exposure].allSatisfy({ abs($0) <= 1_000_000 }) else {
            throw .processingFailed.with(detail: identifier)
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
            // Nothing times infinitely much stays nothing.
            return value == 0 ? 0 : Float(encoded * 255)
        }
    }
}
