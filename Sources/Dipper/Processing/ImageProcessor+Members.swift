// Static members for processors, used as in `request.processed(by: .blur(10))`.

extension ImageProcessor where Self == Resize {
    /// Returns a ``Resize`` processor for a size in pixels.
    public static func resize(
        width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false
    ) -> Resize {
        Resize(width: width, height: height, mode, allowsUpscaling: allowsUpscaling)
    }
}

extension ImageProcessor where Self == Downsample {
    /// Returns a ``Downsample`` processor for a size in pixels.
    public static func downsample(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Downsample {
        Downsample(width: width, height: height, mode)
    }
}

extension ImageProcessor where Self == Scale {
    /// Returns a ``Scale`` processor for a factor.
    public static func scale(by factor: Double) -> Scale { Scale(by: factor) }
}

extension ImageProcessor where Self == Crop {
    /// Returns a ``Crop`` processor for a size in pixels.
    public static func crop(width: Int, height: Int, anchor: Anchor = .center) -> Crop {
        Crop(width: width, height: height, anchor: anchor)
    }

    /// Returns a ``Crop`` processor for a rectangle.
    public static func crop(to rectangle: PixelRect) -> Crop { Crop(to: rectangle) }
}

extension ImageProcessor where Self == Fitting {
    /// Returns a ``Fitting`` processor for a frame whose size is given in pixels.
    public static func fitting(
        width: Int, height: Int, _ mode: ContentMode = .aspectFit, background: Color = .clear,
        allowsUpscaling: Bool = true
    ) -> Fitting {
        Fitting(width: width, height: height, mode, background: background, allowsUpscaling: allowsUpscaling)
    }
}

extension ImageProcessor where Self == RoundCorners {
    /// Returns a ``RoundCorners`` processor.
    public static func roundCorners(
        radius: Length, corners: Corners = .all, background: Color = .clear
    ) -> RoundCorners {
        RoundCorners(radius: radius, corners: corners, background: background)
    }
}

extension ImageProcessor where Self == Circle {
    /// A ``Circle`` processor with a transparent background.
    public static var circle: Circle { Circle() }
    /// Returns a ``Circle`` processor with a background colour.
    public static func circle(background: Color) -> Circle { Circle(background: background) }
}

extension ImageProcessor where Self == Border {
    /// Returns a ``Border`` processor.
    public static func border(
        _ color: Color, width: Length, radius: Length = 0, corners: Corners = .all
    ) -> Border {
        Border(color, width: width, radius: radius, corners: corners)
    }
}

extension ImageProcessor where Self == GaussianBlur {
    /// Returns a ``GaussianBlur`` processor for a standard deviation in pixels.
    public static func blur(_ sigma: Double) -> GaussianBlur { GaussianBlur(sigma: sigma) }
}

extension ImageProcessor where Self == Overlay {
    /// Returns an ``Overlay`` processor.
    public static func overlay(_ color: Color, fraction: Double = 0.5) -> Overlay { Overlay(color, fraction: fraction) }
}

extension ImageProcessor where Self == Tint {
    /// Returns a ``Tint`` processor.
    public static func tint(_ color: Color) -> Tint { Tint(color) }
}

extension ImageProcessor where Self == ColorControls {
    /// Returns a ``ColorControls`` processor.
    public static func colors(
        brightness: Double = 0, contrast: Double = 1, saturation: Double = 1, exposure: Double = 0
    ) -> ColorControls {
        ColorControls(brightness: brightness, contrast: contrast, saturation: saturation, exposure: exposure)
    }
}

extension ImageProcessor where Self == Monochrome {
    /// A ``Monochrome`` processor for black and white.
    public static var blackWhite: Monochrome { Monochrome() }
    /// Returns a ``Monochrome`` processor for shades of a colour.
    public static func monochrome(_ color: Color, intensity: Double = 1) -> Monochrome {
        Monochrome(color: color, intensity: intensity)
    }
}

extension ImageProcessor where Self == Blend {
    /// Returns a ``Blend`` processor that blends pictures with a colour.
    public static func blend(
        _ color: Color, _ mode: BlendMode = .over, opacity: Double = 1, side: Blend.Side = .above
    ) -> Blend {
        Blend(color, mode, opacity: opacity, side: side)
    }

    /// Returns a ``Blend`` processor that blends pictures with another picture.
    public static func blend(
        _ image: Image, _ mode: BlendMode = .over, anchor: Anchor = .center, opacity: Double = 1,
        side: Blend.Side = .above
    ) -> Blend {
        Blend(image, mode, anchor: anchor, opacity: opacity, side: side)
    }
}

extension ImageProcessor where Self == Rotate {
    /// Returns a ``Rotate`` processor that turns pictures clockwise.
    public static func rotate(degrees: Double, background: Color = .clear, expands: Bool = true) -> Rotate {
        Rotate(degrees: degrees, background: background, expands: expands)
    }
}

extension ImageProcessor where Self == Flip {
    /// Returns a ``Flip`` processor: `.flip(.horizontal)` or `.flip(.vertical)`.
    public static func flip(_ flip: Flip) -> Flip { flip }
}
