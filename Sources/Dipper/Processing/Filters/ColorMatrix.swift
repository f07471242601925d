import CPixels

/// What each colour of the result takes from each colour of a picture, and from its alpha: colours are multiplied by alpha,
/// so that what is added to them counts as much as the pixel.
struct ColorMatrix {
    /// By red, green, blue and alpha of the picture.
    private(set) var columns: [SIMD4<Double>] = [
        SIMD4(1, 0, 0, 0), SIMD4(0, 1, 0, 0), SIMD4(0, 0, 1, 0), SIMD4(0, 0, 0, 1),
    ]

    /// How bright a colour is by its parts (ITU-R BT.709).
    static let luma = SIMD3(0.2126, 0.7152, 0.0722)

    /// Changes nothing.
    init() {}

    /// Grey of the same brightness at 0, the picture at 1, more colourful above.
    init(saturation: Double) {
        for (index, share) in [Self.luma.x, Self.luma.y, Self.luma.z].enumerated() {
            let grey = SIMD4(share, share, share, 0)
            columns[index] = grey + (columns[index] - grey) * saturation
        }
    }

    /// Then multiplies by a factor and adds to it.
    mutating func scale(by factor: Double, adding sum: Double) {
        for index in 0..<3 { columns[index] *= factor }
        columns[3] += SIMD4(sum, sum, sum, 0)
    }

    /// A colour as bright as the picture: a part of it.
    init(monochrome color: Color, intensity: Double) {
        let color = SIMD4(color.red, color.green, color.blue, 0)
        for (index, share) in [Self.luma.x, Self.luma.y, Self.luma.z].enumerated() {
            columns[index] = columns[index] * (1 - intensity) + color * share * intensity
        }
    }

    /// The picture through it.
    /// - Parameter curve: what is taken for each value of a colour, not multiplied by alpha, before.
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
