import Foundation
import Synchronization

/// Making one picture of some bytes, for all who wait for it.
final class DecodeWork: Sendable {
    /// What the picture is made of.
    enum Source: Sendable {
        /// The bytes as they were fetched; and what was made of them before, if it is on disk.
        case original(DataResponse, derived: StoredData?)
        /// What was made of them before.
        case derived(StoredData)

        var info: EntryInfo {
            switch self {
            case .original(let response, _): response.info
            case .derived(let stored): stored.info
            }
        }
    }

    let key: CacheKey
    let imageKey: CacheKey
    let memoryKey: CacheKey
    let source: Source
    let request: ImageRequest
    let options: ResolvedOptions
    let loader: ImageLoader
    /// Nobody waits any more.
    private let cancelled = Atomic(false)
    /// Where what comes of it is not to be kept.
    let removals = Removals()
    private let isCounted = Atomic(false)
    private let state = Mutex(State())

    private struct State {
        var waiters: [ImageTask] = []
        /// In the queue.
        var number: Int?
        var isOver = false
    }

    init(_ task: ImageTask, _ source: Source, _ loader: ImageLoader) {
        key = task.key
        imageKey = task.imageKey
        memoryKey = task.memoryKey
        request = task.request
        options = task.options
        self.source = source
        self.loader = loader
    }

    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Whether the other bytes are the same ones.
    func isMade(of other: Source) -> Bool { source.info === other.info }

    /// Whether the request would be answered by what is being made, if it asked the tiers.
    func serves(_ request: ImageRequest, _ originals: DataCache) -> Bool {
        removals.tiers.isEmpty && !source.info.isStandIn && originals.use(of: source.info, for: request.data) == .fresh
    }

    /// Bytes that are held for it.
    private var size: Int {
        switch source {
        case .original(let response, let derived): response.data.count + (derived?.data.count ?? 0)
        case .derived(let stored): stored.data.count
        }
    }

    /// It waits for the decoder.
    func count(_ originals: DataCache) {
        isCounted.store(true, ordering: .relaxed)
        loader.backlog.add(size, originals)
    }

    /// It no longer does.
    func discount() {
        if isCounted.exchange(false, ordering: .relaxed) { loader.backlog.remove(size) }
    }

    // MARK: Those who wait

    var waiters: [ImageTask] { state.withLock { $0.waiters } }

    /// False if it is too late.
    func add(_ task: ImageTask) -> Bool {
        state.withLock { state in
            guard !state.isOver else { return false }
            state.waiters.append(task)
            return true
        }
    }

    func leave(_ task: ImageTask) {
        let (isLast, number) = state.withLock { state -> (Bool, Int?) in
            guard !state.isOver else { return (false, nil) }
            state.waiters.removeAll { $0 === task }
            guard state.waiters.isEmpty else { return (false, nil) }
            state.isOver = true
            return (true, state.number)
        }
        guard isLast else { return rearrange() }
        cancelled.store(true, ordering: .relaxed)
        loader.dropped(self, number: number)
    }

    /// Those who wait now; nobody can join afterwards.
    func close() -> [ImageTask] {
        state.withLock { state in
            state.isOver = true
            return exchange(&state.waiters, with: [])
        }
    }

    // MARK: The queue

    /// The place that the most important of those who wait deserves.
    var place: DecodeQueue.Place {
        let waiters = waiters
        let isUrgent = waiters.contains { $0.lane == .fast }
        let lane = isUrgent ? loader.data.fastLane : loader.data.slowLane
        return DecodeQueue.Place(
            rank: isUrgent ? .urgent : .slow, priority: waiters.map(\.priority).max() ?? .normal,
            isLIFO: lane.order == .lifo)
    }

    func queued(as number: Int?) { state.withLock { $0.number = number } }

    /// Finds its place anew after a change.
    func rearrange() {
        guard let number = state.withLock({ $0.number }) else { return }
        var place = place
        while true {
            loader.queue.move(number, to: place)
            // Another change may have come meanwhile, whose move was overtaken by this one.
            let latest = self.place
            if latest == place { return }
            place = latest
        }
    }
}
