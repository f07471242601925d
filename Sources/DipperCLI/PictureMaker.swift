import Dipper
import Foundation

/// Gets pictures in the size wanted, and makes files of them.
final class PictureMaker: Sendable {
    let images: ImageCache
    private let options: PictureOptions
    /// Where ends are told, one at a time.
    private let output = DispatchQueue(label: "dipper.pictures")

    init(_ options: PictureOptions, _ originals: DataCache) {
        self.options = options
        var configuration = ImageCache.Configuration()
        configuration.originals = originals
        configuration.options.serializer = PictureFile.serializer
        configuration.options.processors = options.resize.map { [Downsample(to: $0.target)] }
        // The other frames would have no place.
        configuration.options.firstFrameOnly = [.jpeg, .png].contains(options.format?.format)
        images = ImageCache(configuration)
    }

    /// Gets a picture; the end is told on a queue of its own.
    func get(
        _ request: DataRequest, _ queue: FetchQueue,
        _ end: @escaping @Sendable (FetchQueue, _ attempts: Int, Result<Answer, DipperError>) -> Void
    ) {
        // In place: on the decoding thread, of which there are several.
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
