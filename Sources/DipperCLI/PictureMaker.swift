import Dipper
import Foundation

/// A maker of picture files: it gets pictures in the size wanted, and encodes them.
final class PictureMaker: Sendable {
    let images: ImageCache
    private let options: PictureOptions
    /// The queue on which ends are reported, one at a time.
    private let output = DispatchQueue(label: "dipper.pictures")

    init(_ options: PictureOptions, _ originals: DataCache) {
        self.options = options
        var configuration = ImageCache.Configuration()
        configuration.originals = originals
        configuration.options.serializer = PictureFile.serializer
        configuration.options.processors = options.resize.map { [.downsample(to: $0.target)] }
        // These formats have no room for the other frames.
        configuration.options.firstFrameOnly = [.jpeg, .png].contains(options.format?.format)
        images = ImageCache(configuration)
    }

    /// Gets a picture, and calls the closure on a queue of its own when the call has ended.
    func get(
        _ request: DataRequest, _ queue: FetchQueue,
        _ end: @escaping @Sendable (FetchQueue, _ attempts: Int, Result<Answer, DipperError>) -> Void
    ) {
        // In place, so that pictures are encoded on the decoding threads, of which there are several.
        let request = ImageRequest(request.with(\.callbackQueue, .inPlace))
        let task = queue == .fast ? images.getImage(request) : images.slowGetImage(request)
        task.onEnd { [self] result in
            let answer = result.flatMap { response in file(of: response, request.data) }
            output.async { end(task.queue, task.attempts, answer) }
        }
    }

    private func file(of response: ImageResponse, _ request: DataRequest) -> Result<Answer, DipperError> {
        let image = response.image
        let format =
            options.format?.format ?? PictureFile.format(of: images.data.data(for: request.cacheKey), image)
        do throws(DipperError) {
            let body = try PictureFile.encode(image, as: format)
            return .success(
                Answer(source: response.source, status: response.status, body: body, picture: (format, image.size)))
        } catch {
            return .failure(error)
        }
    }
}
