import Dipper
import Foundation

/// The code of "Processors".
enum ProcessorsGuide {
    static func members(_ url: URL) -> ImageRequest {
        let request = ImageRequest(url)
            .processed(by: .downsample(width: 200, height: 200, .fill))
            .processed(by: .crop(width: 200, height: 200))
            .processed(by: .roundedCorners(radius: 12))
        return request
    }

    static func chain(_ url: URL) -> ImageRequest {
        let square = ImageProcessors.Downsample(width: 96, height: 96, .fill)
        let avatar = square |> .circle |> .border(.white, width: 3, radius: 48)
        let request = ImageRequest(url).processed(by: avatar)
        return request
    }

    static func alone(_ image: Image) throws -> Image {
        let soft = try ImageProcessors.Blur(10).process(image, ProcessingContext())
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
}
