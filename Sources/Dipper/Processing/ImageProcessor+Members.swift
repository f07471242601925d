// The short forms of the built-in processors, as in `request.processed(by: .blur(10))`.

// MARK: Sizes and frames

extension ImageProcessor where Self == ImageProcessors.Downsample {
    /// Returns an ``ImageProcessors/Downsample`` processor for a size in pixels.
    public static func downsample(width: Int, height: Int, _ mode: TargetSize.Mode = .fit) -> Self {
        Self(width: width, height: height, mode)
    }

    /// Returns an ``ImageProcessors/Downsample`` processor for a target.
    public static func downsample(to target: TargetSize) -> Self { Self(to: target) }
}

extension ImageProcessor where Self == ImageProcessors.Resize {
    /// Returns an ``ImageProcessors/Resize`` processor for a size in pixels.
    public static func resize(
        width: Int, height: Int, _ mode: TargetSize.Mode = .fit, allowsUpscaling: Bool = false
    ) -> Self {
        Self(width: width, height: height, mode, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a width in pixels.
    public static func resize(width: Int, allowsUpscaling: Bool = false) -> Self {
        Self(width: width, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a height in pixels.
    public static func resize(height: Int, allowsUpscaling: Bool = false) -> Self {
        Self(height: height, allowsUpscaling: allowsUpscaling)
    }

    /// Returns an ``ImageProcessors/Resize`` processor for a target.
    public static func resize(to target: TargetSize) -> Self { Self(to: target) }
}

extension ImageProcessor where Self == ImageProcessors.Scale {
    /// Returns an ``ImageProcessors/Scale`` processor for a factor.
    public static func scale(by factor: Double) -> Self { Self(by: factor) }
}

extension ImageProcessor where Self == ImageProcessors.Crop {
    /// Returns an ``ImageProcessors/Crop`` processor for a size in pixels.
    public static func crop(width: Int, height: Int, anchor: Anchor = .center) -> Self {
        Self(width: width, height: height, anchor: anchor)
    }

    /// Returns an ``ImageProcessors/Crop`` processor for proportions: the width divided by the height.
    public static func crop(toRatio ratio: Double, anchor: Anchor = .center) -> Self {
        Self(toRatio: ratio, anchor: anchor)
    }

    /// Returns an ``ImageProcessors/Crop`` processor for a rectangle.
    public static func crop(to rectangle: PixelRect) -> Self { Self(to: rectangle) }
}

extension ImageProcessor where Self == ImageProcessors.Fitting {
    /// Returns an ``ImageProcessors/Fitting`` processor for a frame whose size is given in pixels.
    public static func fitting(
        width: Int, height: Int, _ mode: ImageProcessors.Fitting.ContentMode = .aspectFit, background: Color = .clear,
        allowsUpscaling: Bool = true
    ) -> Self {
        Self(width: width, height: height, mode, background: background, allowsUpscaling: allowsUpscaling)
    }
}

// MARK: Orientation

extension ImageProcessor where Self == ImageProcessors.Rotate {
    /// Returns an ``ImageProcessors/Rotate`` processor that turns pictures clockwise.
    public static func rotate(degrees: Double, background: Color = .clear, expands: Bool = true) -> Self {
        Self(degrees: degrees, background: background, expands: expands)
    }
}

extension ImageProcessor where Self == ImageProcessors.Flip {
    /// Returns an ``ImageProcessors/Flip`` processor: `.flip(.horizontal)` or `.flip(.vertical)`.
    public static func flip(_ flip: ImageProcessors.Flip) -> Self { flip }
}

// MARK: Shapes

extension ImageProcessor where Self == ImageProcessors.RoundedCorners {
    /// Returns an ``ImageProcessors/RoundedCorners`` processor.
    public static func roundedCorners(radius: Length, corners: Corners = .all, background: Color = .clear) -> Self {
        Self(radius: radius, corners: corners, background: background)
    }
}

extension ImageProcessor where Self == ImageProcessors.Circle {
    /// An ``ImageProcessors/Circle`` processor with a transparent background.
    public static var circle: Self { Self() }
    /// Returns an ``ImageProcessors/Circle`` processor with a background colour.
    public static func circle(background: Color) -> Self { Self(background: background) }
}

extension ImageProcessor where Self == ImageProcessors.Border {
    /// Returns an ``ImageProcessors/Border`` processor.
    public static func border(_ color: Color, width: Length, radius: Length = 0, corners: Corners = .all) -> Self {
        Self(color, width: width, radius: radius, corners: corners)
    }
}

// MARK: Colours and filters

extension ImageProcessor where Self == ImageProcessors.Blur {
    /// Returns an ``ImageProcessors/Blur`` processor for a standard deviation in pixels.
    public static func blur(_ sigma: Double) -> Self { Self(sigma) }
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

extension ImageProcessor where Self == ImageProcessors.Tint {
    /// Returns an ``ImageProcessors/Tint`` processor.
    public static func tint(_ color: Color) -> Self { Self(color) }
}

extension ImageProcessor where Self == ImageProcessors.Overlay {
    /// Returns an ``ImageProcessors/Overlay`` processor.
    public static func overlay(_ color: Color, fraction: Double = 0.5) -> Self { Self(color, fraction: fraction) }
}

extension ImageProcessor where Self == ImageProcessors.Blend {
    /// Returns an ``ImageProcessors/Blend`` processor that blends pictures with a colour.
    public static func blend(
        _ color: Color, _ mode: ImageProcessors.Blend.Mode = .over, opacity: Double = 1,
        side: ImageProcessors.Blend.Side = .above
    ) -> Self {
        Self(color, mode, opacity: opacity, side: side)
    }

    /// Returns an ``ImageProcessors/Blend`` processor that blends pictures with another picture.
    public static func blend(
        _ image: Image, _ mode: ImageProcessors.Blend.Mode = .over, anchor: Anchor = .center, opacity: Double = 1,
        side: ImageProcessors.Blend.Side = .above
    ) -> Self {
        Self(image, mode, anchor: anchor, opacity: opacity, side: side)
    }
}

extension ImageProcessor where Self == ImageProcessors.Storyboard {
    /// Returns an ``ImageProcessors/Storyboard`` processor for a grid.
    public static func storyboard(columns: Int, rows: Int) -> Self { Self(columns: columns, rows: rows) }
}

extension ImageProcessor where Self == ImageProcessors.SoulOut {
    /// Returns an ``ImageProcessors/SoulOut`` processor for a copy of a scale and an opacity.
    public static func soulOut(scale: Double = 1.5, opacity: Double = 0.5) -> Self {
        Self(scale: scale, opacity: opacity)
    }
}

// MARK: Chains and closures

extension ImageProcessor where Self == ImageProcessors.Chain {
    /// Returns an ``ImageProcessors/Chain`` that applies processors in the given order.
    public static func chain(_ processors: [any ImageProcessor]) -> Self { Self(processors) }
}

extension ImageProcessor where Self == ImageProcessors.Custom {
    /// Returns an ``ImageProcessors/Custom`` processor for a closure that the identifier names.
    public static func custom(
        _ identifier: String, usesScale: Bool = false,
        _ body: @escaping @Sendable (Image, ProcessingContext) throws -> Image
    ) -> Self {
        Self(identifier, usesScale: usesScale, body)
    }
}
