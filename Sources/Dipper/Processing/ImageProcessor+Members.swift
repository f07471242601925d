// Processors by their members, as in `request.processed(by: .blur(10))`.

extension ImageProcessor where Self == Resize {
    /// ``Resize`` to a size in pixels.
    public static func resize(
        width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false
    ) -> Resize {
        Resize(width: width, height: height, mode, allowsUpscaling: allowsUpscaling)
    }
}

extension ImageProcessor where Self == Downsample {
    /// ``Downsample`` to a size in pixels.
    public static func downsample(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Downsample {
        Downsample(width: width, height: height, mode)
    }
}

extension ImageProcessor where Self == Scale {
    /// ``Scale`` by a factor.
    public static func scale(by factor: Double) -> Scale { Scale(by: factor) }
}

extension ImageProcessor where Self == Crop {
    /// ``Crop`` to a size in pixels.
    public static func crop(width: Int, height: Int, anchor: Anchor = .center) -> Crop {
        Crop(width: width, height: height, anchor: anchor)
    }

    /// ``Crop`` to a rectangle.
    public static func crop(to rectangle: PixelRect) -> Crop { Crop(to: rectangle) }
}

extension ImageProcessor where Self == Fitting {
    /// ``Fitting`` into a frame of so many pixels.
    public static func fitting(
        width: Int, height: Int, _ mode: ContentMode = .aspectFit, background: Color = .clear,
        allowsUpscaling: Bool = true
    ) -> Fitting {
        Fitting(width: width, height: height, mode, background: background, allowsUpscaling: allowsUpscaling)
    }
}

extension ImageProcessor where Self == RoundCorners {
    /// ``RoundCorners``.
    public static func roundCorners(
        radius: Length, corners: Corners = .all, background: Color = .clear
    ) -> RoundCorners {
        RoundCorners(radius: radius, corners: corners, background: background)
    }
}

extension ImageProcessor where Self == Circle {
    /// ``Circle`` with nothing behind it.
    public static var circle: Circle { Circle() }
    /// ``Circle`` on a colour.
    public static func circle(background: Color) -> Circle { Circle(background: background) }
}

extension ImageProcessor where Self == Border {
    /// ``Border``.
    public static func border(
        _ color: Color, width: Length, radius: Length = 0, corners: Corners = .all
    ) -> Border {
        Border(color, width: width, radius: radius, corners: corners)
    }
}

extension ImageProcessor where Self == GaussianBlur {
    /// ``GaussianBlur`` of a standard deviation in pixels.
    public static func blur(_ sigma: Double) -> GaussianBlur { GaussianBlur(sigma: sigma) }
}

extension ImageProcessor where Self == Overlay {
    /// ``Overlay``.
    public static func overlay(_ color: Color, fraction: Double = 0.5) -> Overlay { Overlay(color, fraction: fraction) }
}

extension ImageProcessor where Self == Tint {
    /// ``Tint``.
    public static func tint(_ color: Color) -> Tint { Tint(color) }
}

extension ImageProcessor where Self == ColorControls {
    /// ``ColorControls``.
    public static func colors(
        brightness: Double = 0, contrast: Double = 1, saturation: Double = 1, exposure: Double = 0
    ) -> ColorControls {
        ColorControls(brightness: brightness, contrast: contrast, saturation: saturation, exposure: exposure)
    }
}

extension ImageProcessor where Self == Monochrome {
    /// ``Monochrome`` in black and white.
    public static var blackWhite: Monochrome { Monochrome() }
    /// ``Monochrome`` in shades of a colour.
    public static func monochrome(_ color: Color, intensity: Double = 1) -> Monochrome {
        Monochrome(color: color, intensity: intensity)
    }
}

extension ImageProcessor where Self == Blend {
    /// ``Blend`` with a colour.
    public static func blend(
        _ color: Color, _ mode: BlendMode = .over, opacity: Double = 1, side: Blend.Side = .above
    ) -> Blend {
        Blend(color, mode, opacity: opacity, side: side)
    }

    /// ``Blend`` with another picture.
    public static func blend(
        _ image: Image, _ mode: BlendMode = .over, anchor: Anchor = .center, opacity: Double = 1,
        side: Blend.Side = .above
    ) -> Blend {
        Blend(image, mode, anchor: anchor, opacity: opacity, side: side)
    }
}

extension ImageProcessor where Self == Rotate {
    /// ``Rotate`` clockwise.
    public static func rotate(degrees: Double, background: Color = .clear, expands: Bool = true) -> Rotate {
        Rotate(degrees: degrees, background: background, expands: expands)
    }
}

extension ImageProcessor where Self == Flip {
    /// ``Flip`` left and right, or top and bottom.
    public static func flip(_ flip: Flip) -> Flip { flip }
}
