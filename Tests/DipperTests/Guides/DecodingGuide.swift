import Dipper
import Foundation

enum DecodingGuide {
    static func info(_ bytes: Data) throws -> ImageInfo {
        let info = try ImageInfo(bytes)
        print(info.format, info.size ?? "no size", info.frameCount)
        return info
    }

    static func accept(_ configuration: inout ImageCache.Configuration) {
        configuration.data.completeRequest = { [accept = configuration.codecs.accept] request in
            request.headers["Accept"] = accept
        }
    }

    static func sizes(_ url: URL) -> ImageRequest {
        let thumbnail = ImageRequest(url).processed(by: .downsample(width: 200, height: 200, .fill))
        return thumbnail
    }

    static func favicon(_ url: URL) -> ImageRequest {
        let favicon = ImageRequest(url).processed(by: .downsample(width: 16, height: 16))
        return favicon
    }

    static func apart(_ folder: URL) -> ImageCache {
        ImageCache.runDecoderIfAsked()  // the first line of the program
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.isolation = .required
        let cache = ImageCache(configuration)
        return cache
    }

    static func previews(_ cache: ImageCache, _ url: URL, _ view: Stage) {
        cache.getImage(url)
            .onPreview { preview in view.show(preview) }
            .then { image in view.show(image) }
    }

    static func frames(_ image: Image, _ player: Stage) async throws {
        if let frames = try image.animation?.makeFrameDecoder() {
            while let frame = try frames.next() { try await player.show(frame.image, for: frame.duration) }
        }
    }

    static func video(_ cache: ImageCache, _ video: URL) async throws -> Image {
        let still = VideoFrameProvider(video, at: .seconds(3), fitting: PixelSize(width: 320, height: 320))
        let image = try await cache.getImage(ImageRequest(still)).value
        return image
    }

    static func remoteVideo(_ cache: ImageCache, _ videoURL: URL) async throws -> Image {
        let frame = ImageRequest(VideoFrameProvider(videoURL, at: .seconds(3)))
        let image = try await cache.getImage(frame).value
        return image
    }

    static func codecs(_ bytes: Data) throws -> (Data, Data) {
        let image = try Image(data: bytes)
        let icon = try Image(data: bytes, DecodeOptions(target: TargetSize(width: 64, height: 64)))
        let round = try image.processed(by: .downsample(width: 96, height: 96, .fill), .circle)
        let file = try round.encoded(as: .png)
        let small = try icon.encoded(as: .jpeg(quality: 0.8))
        return (file, small)
    }

    static func points(_ bytes: Data) throws -> Image {
        var options = DecodeOptions(target: TargetSize(width: 64, height: 64).points)
        options.scale = 2  // at most 128 by 128 pixels
        let icon = try Image(data: bytes, options)
        return icon
    }

    struct Negative: ImageProcessor {
        var identifier: String { "negative" }

        func process(_ image: Image, _ context: ProcessingContext) throws -> Image {
            var pixels: [UInt8] = []
            for y in 0..<image.height {
                try context.checkCancelled()
                for x in 0..<image.width {
                    let pixel = image[x, y]
                    pixels += [pixel.w - pixel.x, pixel.w - pixel.y, pixel.w - pixel.z, pixel.w]
                }
            }
            guard let negative = Image(size: image.size, premultiplied: pixels) else {
                throw DipperError.processingFailed
            }
            return negative
        }
    }

    static func chain(_ url: URL) -> ImageRequest {
        let request = ImageRequest(url).processed(by: .downsample(width: 400, height: 300), Negative())
        return request
    }

    /// Pictures of one grey, in a format that exists here only: four letters, width, height, grey.
    struct PixmapDecoder: ImageDecoder {
        var format: ImageFormat { ImageFormat(rawValue: "pixmap") }

        func recognizes(_ start: Data) -> Bool { start.starts(with: Data("pxmp".utf8)) }

        func info(of data: Data) throws(DipperError) -> ImageInfo {
            let bytes = Array(data.dropFirst(4))
            guard bytes.count == 3 else { throw .undecodable }
            return ImageInfo(format: format, size: PixelSize(width: Int(bytes[0]), height: Int(bytes[1])))
        }

        func decode(_ data: Data, _ options: DecodeOptions) throws(DipperError) -> Image {
            guard var size = try info(of: data).size, let grey = data.last else { throw .undecodable }
            try options.limits.check(size)
            size = options.target?.size(for: size) ?? size
            var pixels: [UInt8] = []
            for _ in 0..<size.height {
                try options.checkCancelled()
                for _ in 0..<size.width { pixels += [grey, grey, grey, 255] }
            }
            guard let image = Image(size: size, premultiplied: pixels, scale: options.scale) else { throw .undecodable }
            return image
        }
    }

    static func register(_ folder: URL?) -> ImageCache.Configuration {
        var configuration = ImageCache.Configuration(directory: folder)
        configuration.codecs.register(PixmapDecoder())
        return configuration
    }

    static func serializer(_ configuration: inout ImageCache.Configuration) {
        configuration.options.serializer = .format(.webp, EncodeOptions(quality: 0.8))
    }
}
