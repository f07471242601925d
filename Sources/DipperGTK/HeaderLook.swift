#if GTK
    import Dipper
    import DipperData
    import Foundation
    import Synchronization

    /// The sizes of pictures whose headers have been read, so that a picture that is shown again takes its room at once.
    enum KnownSizes {
        private static let most = 20_000
        private static let sizes = Mutex<[CacheKey: PixelSize]>([:])

        static subscript(request: ImageRequest) -> PixelSize? { sizes.withLock { $0[request.data.cacheKey] } }

        static func remove(_ request: ImageRequest) {
            sizes.withLock { _ = $0.removeValue(forKey: request.data.cacheKey) }
        }

        static func add(_ size: PixelSize, of request: ImageRequest) {
            sizes.withLock { sizes in
                if sizes.count >= most { sizes = [:] }
                sizes[request.data.cacheKey] = size
            }
        }
    }

    /// A look at the first bytes of a picture, beside the call for the picture, with which it shares the fetch.
    final class HeaderLook: Sendable {
        private let task: DataTask
        private let isTold = Mutex(false)
        private let tell: @Sendable (PixelSize?) -> Void

        /// - Parameter tell: called on GTK's thread, once, with the size, or with `nil` if the bytes have none.
        init(_ request: ImageRequest, in cache: ImageCache, _ tell: @escaping @Sendable (PixelSize?) -> Void) {
            self.tell = tell
            let data = cache.options(of: request).originals ?? cache.data
            task = data.getData(request.data.with(\.callbackQueue, .inPlace))
            task.onBytes { [weak self] bytes in self?.read(bytes, of: request) }
            task.onEnd { [weak self] result in
                if case .success(let response) = result { self?.read(response.data, of: request) }
                self?.end(nil)
            }
        }

        /// Ends the look. Must not come before the call for the picture, with which the fetch would end, too.
        func cancel() {
            isTold.withLock { $0 = true }
            task.cancel()
        }

        private func read(_ bytes: Data, of request: ImageRequest) {
            guard let size = (try? ImageInfo(bytes))?.size else { return }
            KnownSizes.add(size, of: request)
            end(size)
        }

        private func end(_ size: PixelSize?) {
            guard !isTold.withLock({ exchange(&$0, with: true) }) else { return }
            CallbackQueue.glib.perform { [tell] in tell(size) }
        }
    }
#endif
