/// Cuts a part out of a picture.
///
/// What covers a size and is cut to it: `Resize(width: 200, height: 200, .fill) |> Crop(width: 200, height: 200)`.
public struct Crop: ImageProcessor, Hashable {
    private enum Area: Hashable {
        case size(PixelSize, Anchor)
        case rectangle(PixelRect)
    }

    private let area: Area

    /// To a size in pixels; a picture that is smaller stays so.
    /// - Parameters:
    ///   - width: in pixels.
    ///   - height: in pixels.
    ///   - anchor: the point of the picture that stays where it is: what is above and below it is cut off in proportion.
    public init(width: Int, height: Int, anchor: Anchor = .center) {
        area = .size(PixelSize(width: width, height: height), anchor)
    }

    /// To a rectangle; what of it is outside the picture is left out.
    public init(to rectangle: PixelRect) {
        area = .rectangle(rectangle)
    }

    /// Such as `crop(200x200,0.5:0.5)` and `crop(200x200+10+20)`.
    public var identifier: String {
        switch area {
        case .size(let size, let anchor): "crop(\(size),\(anchor.identifier))"
        case .rectangle(let rectangle): "crop(\(rectangle))"
        }
    }

    /// A picture of which nothing is cut off is given back as it is.
    /// - Throws: `DipperError.processingFailed` if nothing would be left, `DipperError.cancelled`.
    public func process(_ image: Image, _ context: ProcessingContext) throws(DipperError) -> Image {
        let rectangle: PixelRect? =
            switch area {
            case .rectangle(let rectangle): rectangle.clipped(to: image.size)
            case .size(let size, let anchor): Self.rectangle(of: size, anchor, in: image.size)
            }
        guard let rectangle else { throw .processingFailed.with(detail: "nothing is left of \(image.size)") }
        return try image.part(rectangle.size, x: rectangle.x, y: rectangle.y, context)
    }

    private static func rectangle(of size: PixelSize, _ anchor: Anchor, in picture: PixelSize) -> PixelRect? {
        guard !size.isEmpty else { return nil }
        let size = PixelSize(width: min(size.width, picture.width), height: min(size.height, picture.height))
        let (x, y) = anchor.offset(of: size, in: picture)
        return PixelRect(x: x, y: y, width: size.width, height: size.height)
    }
}
