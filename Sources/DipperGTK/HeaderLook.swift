#if GTK
    import Dipper
    import DipperData
    import Foundation
    import Synchronization

    /// The sizes of pictures whose headers have been read, so that a picture that is shown again takes its room at once.
    enum KnownSizes {
        private static let most = 20_000
        private static let sizes = Mutex<[CacheKey: PixelSize]>([:])

        static subscript(request: ImageRequest, in cache: ImageCache) -> PixelSize? {
            let key = key(of: request, in: cache)
            return sizes.withLock { $0[key] }
        }

        static func remove(_ request: ImageRequest, in cache: ImageCache) {
            let key = key(of: request, in: cache)
            sizes.withLock { _ = $0.removeValue(forKey: key) }
        }

        static func add(_ size: PixelSize, of request: ImageRequest, in cache: ImageCache) {
            let key = key(of: request, in: cache)
            sizes.withLock { sizes in
                if sizes.count >= most { sizes = [:] }
                sizes[key] = size
            }
        }

        /// The key of the request as the cache completes it, because caches may complete one in different ways.
        private static func key(of request: ImageRequest, in cache: ImageCache) -> CacheKey {
            (cache.options(of: request).originals ?? cache.data).complete(request.data).cacheKey
        }
    }

    /// A look at the first bytes of a picture, beside the call for the picture, with which it shares the fetch.
    final class HeaderLook: Sendable {
        private struct State {
            var task: DataTask?
            var isUrgent = false
            /// Whether the size is told, or not wanted any more.
            var isTold = false
        }

        private let request: ImageRequest
        private let cache: ImageCache
        private let tell: @Sendable (PixelSize?) -> Void
        private let state = Mutex(State())

        /// - Parameter tell: called on GTK's thread, once, with the size, or with `nil` if the bytes have none.
        init(
            _ request: ImageRequest, in cache: ImageCache, isUrgent: Bool,
            _ tell: @escaping @Sendable (PixelSize?) -> Void
        ) {
            (self.request, self.cache, self.tell) = (request, cache, tell)
            begin(isUrgent: isUrgent)
        }

        private func begin(isUrgent: Bool) {
            let options = cache.options(of: request)
            let data = options.originals ?? cache.data
            var bytes = request.data.with(\.callbackQueue, .inPlace)
            // The look leaves no original on disk either. A file that is here before the call for the picture is fetched
            // again then, unless the memory of the data cache has it.
            if options.keepsOriginal == false, ![.cacheOnly, .bypass].contains(bytes.cachePolicy) {
                bytes.cachePolicy = bytes.cachePolicy == .ignoreCache ? .bypass : .memoryOnly
            }
            let task = isUrgent ? data.getData(bytes) : data.slowGetData(bytes)
            let old = state.withLock { state in
                state.isUrgent = isUrgent
                return exchange(&state.task, with: task)
            }
            task.onBytes { [weak self] in self?.read($0) }
            task.onEnd { [weak self, weak task] result in
                if case .success(let response) = result { self?.read(response.data) }
                // A prefetch in whose place there is an urgent fetch says nothing about the header.
                if let self, state.withLock({ $0.task === task }) { end(nil) }
            }
            // The new call shares the fetch by now.
            old?.cancel()
        }

        /// Makes the fetch urgent, or a prefetch.
        func move(isUrgent: Bool) {
            let (task, isChange) = state.withLock { ($0.task, $0.isUrgent != isUrgent && !$0.isTold) }
            if isUrgent {
                if isChange { begin(isUrgent: true) }
            } else {
                state.withLock { $0.isUrgent = false }
                task?.moveToSlowQueue()
            }
        }

        /// Ends the look. Must not come before the call for the picture, with which the fetch would end, too.
        func cancel() {
            let task = state.withLock { state in
                state.isTold = true
                return state.task
            }
            task?.cancel()
        }

        private func read(_ bytes: Data) {
            guard let size = (try? ImageInfo(bytes))?.size else { return }
            KnownSizes.add(size, of: request, in: cache)
            end(size)
        }

        private func end(_ size: PixelSize?) {
            guard !state.withLock({ exchange(&$0.isTold, with: true) }) else { return }
            CallbackQueue.glib.perform { [tell] in tell(size) }
        }
    }
#endif
