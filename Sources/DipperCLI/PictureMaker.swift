import Dipper
import Foundation

final class PictureMaker: Sendable {
    typealias End = @Sendable (FetchQueue, _ attempts: Int, Result<Answer, DipperError>) -> Void

    let images: ImageCache
    private let options: PictureOptions
    /// Ends are reported one at a time.
    private let output = DispatchQueue(label: "dipper.pictures")

    init(_ options: PictureOptions, _ originals: DataCache) {
        self.options = options
        var configuration = ImageCache.Configuration()
        configuration.originals = originals
        configuration.isolation = options.decoding.isolation
        configuration.options.serializer = options.format.map { .format($0) } ?? PictureFile.serializer
        configuration.options.processors = options.resize.map { size in
            [.resize(to: size)] + (options.format.map { [FormatName(format: $0)] } ?? [])
        }
        // This format has no room for the other frames.
        configuration.options.firstFrameOnly = options.format == .jpeg
        images = ImageCache(configuration)
    }

    /// The closure is called on ``output`` when the call has ended.
    func get(_ request: DataRequest, _ queue: FetchQueue, _ end: @escaping End) -> ImageTask {
        // In place, so that pictures are encoded on the decoding threads, of which there are several.
        let request = ImageRequest(request.with(\.callbackQueue, .inPlace))
        let task = queue == .fast ? images.getImage(request) : images.slowGetImage(request)
        return task.onEnd { [self] result in
            let answer = result.flatMap { response in file(of: response, request) }
            output.async { end(task.queue, task.attempts, answer) }
        }
    }

    private func file(of response: ImageResponse, _ request: ImageRequest) -> Result<Answer, DipperError> {
        let image = response.image
        let format =
            options.format ?? PictureFile.format(of: images.data.readData(for: request.data), image)
        do throws(DipperError) {
            let body = if let kept = kept(of: response, request) { kept } else { try image.encoded(as: format) }
            return .success(
                Answer(source: response.source, status: response.status, body: body, picture: (format, image.size)))
        } catch {
            return .failure(error)
        }
    }

    /// Returns the file that the cache keeps of a picture from disk, if it is in the format that is asked for.
    private func kept(of response: ImageResponse, _ request: ImageRequest) -> Data? {
        guard let format = options.format, options.resize != nil, response.source == .disk,
            let bytes = images.data.readData(for: images.imageKey(for: request)),
            ImageFormat(sniffing: bytes) == format
        else { return nil }
        return bytes
    }
}

/// Changes nothing, but names the format in the key, because a file of another format may have lost more.
private struct FormatName: ImageProcessor {
    let format: ImageFormat
    var identifier: String { "dipper.format(\(format.rawValue))" }

    func process(_ image: Image, _ context: ProcessingContext) -> Image { image }
}

enum PictureFile {
    static let codecs = CodecRegistry.standard

    /// Returns the format of the original, if it can be written; otherwise JPEG, or PNG for a picture with alpha.
    static func format(of original: Data?, _ image: Image) -> ImageFormat {
        if let format = original.flatMap({ ImageFormat(sniffing: $0) }), codecs.writable.contains(format) {
            return format
        }
        return image.isOpaque ? .jpeg : .png
    }

    /// For pictures that are resized: without loss where the format allows it, and with all frames of animations.
    static let serializer = ImageSerializer { image, _, codecs throws(DipperError) in
        var options = EncodeOptions()
        options.isLossless = true
        // Animations are smaller as WebP.
        let isWebP = image.animation != nil && codecs.writable.contains(.webp)
        return try codecs.encode(image, as: isWebP ? .webp : .png, options)
    }
}
