/// Pixels of many colours.
enum Ramp {
    /// Returns premultiplied pixels without padding between rows.
    static func pixels(_ width: Int, _ height: Int, hasAlpha: Bool = false) -> [UInt8] {
        (0..<height).flatMap { y in
            (0..<width).flatMap { x in
                let alpha = hasAlpha ? (x + y) * 255 / (width + height - 2) : 255
                let colors = [x * 255 / (width - 1), y * 255 / (height - 1), 255 - (x * y) * 255 / (width * height)]
                return colors.map { UInt8(($0 * alpha + 127) / 255) } + [UInt8(alpha)]
            }
        }
    }
}
