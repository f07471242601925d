import Foundation
import Synchronization

/// The making of one picture, for all who wait for it.
final class DecodeWork: Sendable {
    /// What the picture is made of.
    enum Source: Sendable {
        /// The bytes as they were fetched, and the processed picture on disk, if there is one.
        case original(DataResponse, derived: StoredData?)
        /// The processed picture on disk.
        case derived(StoredData)
        /// A picture that the caller has added.
        case added(AddedPicture)

        var info: EntryInfo {
            switch self {
            case .original(let response, _): response.info
            case .derived(let stored): stored.info
            case .added(let picture): picture.info
            }
        }

        /// Bytes that are held for it.
        var size: Int {
            switch self {
            case .original(let response, let derived): response.data.count + (derived?.data.count ?? 0)
            case .derived(let stored): stored.data.count
            case .added: 0
            }
        }

        /// Whether both are the same bytes of the same answer, though one may have been read anew. Costs a comparison of the
        /// bytes if the answers look the same.
        func isSame(as other: Source) -> Bool {
            switch (self, other) {
            case (.original(let one, _), .original(let two, _)):
                one.info === two.info || (one.info.isLike(two.info) && one.data == two.data)
            case (.derived(let one), .derived(let two)):
                one.info === two.info || (one.info.isLike(two.info) && one.data == two.data)
            case (.added(let one), .added(let two)): one.info === two.info
            default: false
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
    /// The removals since the work began.
    let removals: Removals
    /// Nobody waits any more.
    private let cancelled = Atomic(false)
    private let begun = Atomic(false)
    private let state = Mutex(State())

    /// A change of the work's place. Numbered, because changes may overtake one another on their way to the queue.
    private struct Move {
        let number: Int
        let wish: Wish
        let change: Int
    }

    /// Whether its bytes count as waiting for the decoder.
    private enum Backlog {
        case before, counted, after
    }

    private struct State {
        var wishes = Wishes<ImageTask, Wish>()
        /// In the queue.
        var number: Int?
        /// The wish that the queue knows of, and how often it has changed.
        var told: Wish?
        var changes = 0
        var isOver = false
        var backlog = Backlog.before

        /// The work's new place, if it has another one now.
        mutating func move() -> Move? {
            let wish = wishes.strongest
            guard !isOver, let number, wish != told else { return nil }
            told = wish
            changes += 1
            return Move(number: number, wish: wish, change: changes)
        }
    }

    init(_ task: ImageTask, _ source: Source, _ removed: Removed, _ loader: ImageLoader) {
        key = task.key
        imageKey = task.imageKey
        memoryKey = task.memoryKey
        request = task.request
        options = task.options
        removals = Removals(removed)
        self.source = source
        self.loader = loader
    }

    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    /// Whether what is being made stays out of no tier.
    var isCurrent: Bool { removals.tiers(for: source.info).isEmpty }

    /// Whether it is a picture that was added, as it is.
    var isAddedItself: Bool { if case .added = source { options.chain.processors.isEmpty } else { false } }

    /// Whether the request would be answered by what is being made, if it asked the tiers.
    func serves(_ request: ImageRequest, _ originals: DataCache) -> Bool {
        isCurrent && !source.info.isStandIn && originals.use(of: source.info, for: request.data) == .fresh
    }

    /// True the first time: the caller puts the work into the queue.
    func begin() -> Bool { !begun.exchange(true, ordering: .relaxed) }

    /// Counts its bytes as waiting for the decoder. To be called once.
    func count() {
        loader.backlog.take(source.size)
        // All may have left before it was counted.
        let isLate = state.withLock { state in
            if state.backlog == .before { state.backlog = .counted }
            return state.backlog == .after
        }
        if isLate { loader.backlog.give(source.size) }
    }

    /// Counts its bytes no more, or keeps them from being counted. Without effect the second time.
    func discount() {
        let wasCounted = state.withLock { exchange(&$0.backlog, with: .after) == .counted }
        if wasCounted { loader.backlog.give(source.size) }
    }

    // MARK: Those who wait

    var waiters: [ImageTask] { state.withLock { $0.wishes.all } }

    /// False if it is too late.
    func add(_ task: ImageTask) -> Bool {
        let (isAdded, move) = state.withLock { state -> (Bool, Move?) in
            guard !state.isOver else { return (false, nil) }
            state.wishes.set(task, task.wish)
            return (true, state.move())
        }
        tell(move)
        return isAdded
    }

    func leave(_ task: ImageTask) {
        let (isLast, number, move) = state.withLock { state -> (Bool, Int?, Move?) in
            guard !state.isOver, state.wishes.remove(task) else { return (false, nil, nil) }
            guard state.wishes.isEmpty else { return (false, nil, state.move()) }
            state.isOver = true
            return (true, state.number, nil)
        }
        tell(move)
        guard isLast else { return }
        cancelled.store(true, ordering: .relaxed)
        loader.dropped(self, number: number)
    }

    /// A task has changed its mind.
    func update(_ task: ImageTask) {
        let move = state.withLock { state -> Move? in
            guard state.wishes.contains(task) else { return nil }
            state.wishes.set(task, task.wish)
            return state.move()
        }
        tell(move)
    }

    /// Those who wait now; nobody can join afterwards.
    func close() -> [ImageTask] {
        let wishes = state.withLock { state in
            state.isOver = true
            return exchange(&state.wishes, with: Wishes())
        }
        return wishes.all
    }

    /// Drops work that nobody has joined.
    func dropIfUnwanted() {
        let isUnwanted = state.withLock { state in
            guard !state.isOver, state.wishes.isEmpty else { return false }
            state.isOver = true
            return true
        }
        if isUnwanted { loader.dropped(self, number: nil) }
    }

    // MARK: The queue

    /// Puts the work into the queue, in the place that the most important of those who wait deserves.
    /// - Returns: false if the queue takes nothing more.
    func enqueue(_ run: @escaping @Sendable () -> Void) -> Bool {
        let wish = state.withLock { state in
            state.told = state.wishes.strongest
            return state.wishes.strongest
        }
        guard let number = loader.queue.add(place(wish), cost: cost, run) else { return false }
        // Someone may have joined, or changed their mind, before it had its number; or all have left.
        let (move, isOver) = state.withLock { state -> (Move?, Bool) in
            state.number = number
            return (state.move(), state.isOver)
        }
        if isOver { loader.queue.remove(number) }
        tell(move)
        return true
    }

    /// Bytes of pixels that making the picture takes, about. Reads the header.
    private var cost: @Sendable () -> Int {
        { [source, options] in
            switch source {
            case .original(let response, _): DecodeCost.bytes(of: response.data, options)
            case .derived(let stored): DecodeCost.bytes(of: stored.data, nil)
            case .added(let picture): picture.image.byteCount
            }
        }
    }

    private func place(_ wish: Wish) -> DecodeQueue.Place {
        let isUrgent = wish.queue == .fast
        let queue = isUrgent ? loader.data.fastQueue : loader.data.slowQueue
        return .init(rank: isUrgent ? .urgent : .slow, priority: wish.priority, isLIFO: queue.order == .lifo)
    }

    private func tell(_ move: Move?) {
        guard let move else { return }
        loader.queue.move(move.number, to: place(move.wish), change: move.change)
    }
}

extension EntryInfo {
    /// Whether both may tell of one answer: what is read from disk is another object with fewer fields.
    fileprivate func isLike(_ other: EntryInfo) -> Bool {
        stored == other.stored && status == other.status && isStandIn == other.isStandIn
    }
}
