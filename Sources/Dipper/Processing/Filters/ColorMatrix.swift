import CPixels

/// A matrix that makes each colour of the result from the colours and the alpha of a picture.
///
/// Colours are premultiplied, so a constant to be added is multiplied by alpha: it is in the column of alpha.
struct ColorMatrix {
    /// The shares of the picture's red, green, blue and alpha in the result, in this order.
    private(set) var columns: [SIMD4<Double>] = [
        SIMD4(1, 0, 0, 0), SIMD4(0, 1, 0, 0), SIMD4(0, 0, 1, 0), SIMD4(0, 0, 0, 1),
    ]

    /// The shares of red, green and blue in the brightness of a colour (ITU-R BT.709).
    static let luma = SIMD3(0.2126, 0.7152, 0.0722)

    /// Creates a matrix that changes nothing.
    init() {}

    /// Creates a matrix for a saturation: 0 gives grey of the same brightness, 1 the picture, more a more colourful
    /// one.
    init(saturation: Double) {
        for (index, share) in [Self.luma.x, Self.luma.y, Self.luma.z].enumerated() {
            let grey = SIMD4(share, share, share, 0)
            columns[index] = grey + (columns[index] - grey) * saturation
        }
    }

    /// Creates a matrix that multiplies red, green and blue by factors.
    init(gains: SIMD3<Double>) {
        for index in 0..<3 { columns[index] *= gains[index] }
    }

    /// Multiplies the resulting colours by a factor and then adds a constant.
    mutating func scale(by factor: Double, adding sum: Double) {
        for index in 0..<4 { columns[index] *= SIMD4(factor, factor, factor, 1) }
        columns[3] += SIMD4(sum, sum, sum, 0)
    }

    /// Creates a matrix for shades of one colour that are as bright as the picture.
    /// - Parameter intensity: the share of the shades in the result, 0…1; the rest is the picture.
    init(monochrome color: Color, intensity: Double) {
        let color = SIMD4(color.red, color.green, color.blue, 0)
        for (index, share) in [Self.luma.x, Self.luma.y, Self.luma.z].enumerated() {
            columns[index] = columns[index] * (1 - intensity) + color * share * intensity
        }
    }

    /// Returns the picture with the matrix applied.
    /// - Parameter curve: for each of the 256 values of a colour that is not multiplied by alpha, the value, 0…255,
    ///   that replaces it before the matrix is applied.
    func apply(
        to image: Image, curve: [Float]? = nil, _ context: ProcessingContext
    ) throws(DipperError) -> Image {
        let numbers = columns.flatMap { column in (0..<4).map { Float(column[$0]) } }
        return try image.edited(context, isOpaque: image.isOpaque) { row, _ in
            if let curve {
                pixels_recolor(row, image.width, numbers, curve)
            } else {
                pixels_recolor(row, image.width, numbers, nil)
            }
        }
    }
}
