import Dipper
import Foundation

enum ProcessorsGuide {
    static func members(_ url: URL) -> ImageRequest {
        let request = ImageRequest(url)
            .processed(by: .fitting(width: 200, height: 200, .aspectFill), .roundedCorners(radius: 12))
        return request
    }

    static func points(_ url: URL) -> ImageRequest {
        let sharp = ImageRequest(url)
            .with(\.scale, 2)
            .processed(by: .downsample(width: 200, height: 150).points)  // at most 400 × 300 pixels
            .processed(by: .roundedCorners(radius: .points(8)))  // 16 pixels
        return sharp
    }

    static func chain(_ url: URL) -> ImageRequest {
        let square = ImageProcessors.Fitting(width: 96, height: 96, .aspectFill)
        let avatar = square |> .circle |> .border(.white, width: 3, radius: 48)
        let request = ImageRequest(url).processed(by: avatar)
        return request
    }

    static func alone(_ image: Image) throws -> Image {
        let soft = try image.processed(by: .circle, .blur(10))
        return soft
    }

    static func frames() -> [any ImageProcessor] {
        let cell = ImageProcessors.Fitting(width: 400, height: 300, .aspectFill.at(.top))
        let page = ImageProcessors.Fitting(width: 800, height: 600, .aspectFit, background: .black)
        let stamp = ImageProcessors.Fitting(width: 128, height: 128, .bottomRight)
        return [cell, page, stamp]
    }

    static func ratios() -> [any ImageProcessor] {
        let wide = ImageProcessors.Crop(toRatio: 16 / 9)
        let portrait = ImageProcessors.Crop(toRatio: 4 / 5, anchor: .top)
        return [wide, portrait]
    }

    static func lengths() -> [any ImageProcessor] {
        let card = ImageProcessors.RoundedCorners(radius: .points(8), corners: .top)
        let pill = ImageProcessors.RoundedCorners(radius: .fractionOfHeight(0.5), background: .white)
        return [card, pill]
    }

    static func colors(_ logo: Image) -> [any ImageProcessor] {
        let faded = ImageProcessors.ColorControls(brightness: 0.1, contrast: 0.8, saturation: 0.4)
        let daylight = ImageProcessors.WhiteBalance(temperature: 3200)
        let warm = ImageProcessors.Monochrome(Color(hex: 0xffd0a0), intensity: 0.8)
        let icon = ImageProcessors.Tint(Color(hex: 0x0060df))
        let marked = ImageProcessors.Blend(logo, anchor: .bottomRight, opacity: 0.6)
        let dark = ImageProcessors.Blend(.black.with(alpha: 0.4), .multiply)
        return [faded, daylight, warm, icon, marked, dark]
    }

    static func custom() -> ImageProcessors.Custom {
        let left = ImageProcessors.Custom("left half") { image, context in
            let half = ImageProcessors.Crop(width: image.width / 2, height: image.height, anchor: .left)
            return try half.process(image, context)
        }
        return left
    }

    // MARK: The processors of the pictures

    static let blue = Color(hex: 0x3584e4)

    static func sizes() -> [any ImageProcessor] {
        let sizes: [any ImageProcessor] = [
            .resize(width: 76, height: 76), .resize(width: 76, height: 76, .fill),
            .resize(width: 76, height: 76, .stretch), .scale(by: 0.25), .crop(toRatio: 1),
            .crop(toRatio: 1.8, anchor: .top), .crop(width: 90, height: 80, anchor: .bottomRight),
        ]
        return sizes
    }

    static func contentModes() -> [any ImageProcessor] {
        let blue = Color(hex: 0x3584e4)
        let modes: [ImageProcessors.Fitting.ContentMode] = [
            .aspectFit, .aspectFill, .scaleToFill, .aspectFit.at(.top), .center, .topLeft, .bottomRight,
        ]
        let frames = modes.map { ImageProcessors.Fitting(width: 108, height: 108, $0, background: blue) }
        return frames
    }

    static func shapes() -> [any ImageProcessor] {
        let card = ImageProcessors.RoundedCorners(radius: 24) |> .border(blue, width: 4, radius: 24)
        let avatar = ImageProcessors.Circle() |> .border(blue, width: 4, radius: .fractionOfHeight(0.5))
        let shapes: [any ImageProcessor] = [
            .roundedCorners(radius: 24), .roundedCorners(radius: .fractionOfHeight(0.5), corners: .right),
            .roundedCorners(radius: 24, background: blue), .circle, .border(blue, width: 4), card, avatar,
        ]
        return shapes
    }

    static func turns() -> [any ImageProcessor] {
        let turns: [any ImageProcessor] = [
            .rotate(degrees: 90), .rotate(degrees: 180), .rotate(degrees: 15),
            .rotate(degrees: 15, background: blue), .rotate(degrees: 15, expands: false),
            .flip(.horizontal), .flip(.vertical),
        ]
        return turns
    }

    static func filters() -> [any ImageProcessor] {
        let filters: [any ImageProcessor] = [
            .blur(2), .blur(6), .colorControls(brightness: 0.2), .colorControls(contrast: 1.4),
            .colorControls(saturation: 0.3), .colorControls(exposure: 1), .whiteBalance(temperature: 3200),
        ]
        return filters
    }

    static func effects() -> [any ImageProcessor] {
        let effects: [any ImageProcessor] = [
            .whiteBalance(temperature: 9000), .monochrome, .monochrome(Color(hex: 0xffd0a0)),
            .tint(blue.with(alpha: 0.4)), .overlay(blue, fraction: 0.8), .storyboard(columns: 2, rows: 2),
            .soulOut(scale: 1.3),
        ]
        return effects
    }

    static func blends(_ logo: Image) -> [any ImageProcessor] {
        let medal = ImageProcessors.Circle() |> .blend(blue, side: .below)
        let blends: [any ImageProcessor] = [
            .blend(blue, .multiply), .blend(blue, .screen), .blend(blue, .overlay), .blend(blue, .difference),
            .blend(blue, .color), .blend(logo, anchor: .bottomRight, opacity: 0.8), medal,
        ]
        return blends
    }
}
