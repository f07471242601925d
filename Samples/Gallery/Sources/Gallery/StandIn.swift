import Dipper
import Foundation

struct DisplayOptions: Sendable {
    var transition = ImageTransition.none
    var failure: Placeholder?
    func with<Value>(_ option: WritableKeyPath<DisplayOptions, Value>, _ value: Value) -> DisplayOptions {
        var copy = self
        copy[keyPath: option] = value
        return copy
    }
}

final class ImageBinding: @unchecked Sendable {
    weak var display: (any ImageDisplay)?
    let cache: ImageCache
    let queue: CallbackQueue
    let options: DisplayOptions
    var task: ImageTask?
    var token = 0
    init(_ display: any ImageDisplay, cache: ImageCache, queue: CallbackQueue, options: DisplayOptions) {
        self.display = display
        self.cache = cache
        self.queue = queue
        self.options = options
    }
    func setImage(_ request: ImageRequest, placeholder: Placeholder) {
        token += 1
        let mine = token
        let old = task
        if cache.cachedTier(for: request) == .memory, let image = cache.image(for: request) {
            display?.show(.image(image), .none)
            task = nil
        } else {
            display?.show(.placeholder(placeholder), .none)
            display?.showActivity(DisplayActivity())
            task = cache.getImage(request.with(\.callbackQueue, queue))
            task?.onProgress { [weak self] p in
                if self?.token == mine { self?.display?.showActivity(DisplayActivity(fraction: p.fraction)) }
            }
            task?.onEnd { [weak self] r in
                guard let self, token == mine else { return }
                display?.showActivity(nil)
                if case .success(let x) = r { display?.show(.image(x.image), options.transition) }
            }
        }
        old?.moveToSlowQueue()
    }
    func willAppear() {}
    func didDisappear() { task?.moveToSlowQueue() }
}

final class ListLoader {
    let cache: ImageCache
    let count: Int
    let make: (Int) -> [ImageRequest]
    var last = 0..<0
    init(_ cache: ImageCache, count: Int, _ make: @escaping (Int) -> [ImageRequest]) {
        self.cache = cache
        self.count = count
        self.make = make
    }
    func update(visible: Range<Int>) {
        let forward = visible.lowerBound >= last.lowerBound
        for i in visible where !last.contains(i) { for r in make(i) { cache.getImage(r) } }
        for i in last where !visible.contains(i) { for r in make(i) { cache.moveTaskToSlowQueue(r) } }
        let ahead =
            forward
            ? visible.upperBound..<min(count, visible.upperBound + visible.count)
            : max(0, visible.lowerBound - visible.count)..<visible.lowerBound
        for i in ahead { for r in make(i) where !cache.hasProcessedImage(for: r) { cache.slowGetImage(r) } }
        last = visible
    }

    func attach(_ binding: ImageBinding, to row: Int, placeholder: Placeholder) {
        if let request = make(row).first { binding.setImage(request, placeholder: placeholder) }
    }

    func detach(_ binding: ImageBinding) { binding.didDisappear() }
}
