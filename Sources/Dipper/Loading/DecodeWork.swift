import Foundation
import Synchronization

/// The work of making one picture for all tasks that wait for it.
final class DecodeWork: Sendable {
    /// The data that the picture is made from.
    enum Source: Sendable {
        /// The original bytes, and the processed picture on disk if there is one.
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

        /// The number of bytes that the source holds in memory.
        var size: Int {
            switch self {
            case .original(let response, let derived): response.data.count + (derived?.data.count ?? 0)
            case .derived(let stored): stored.data.count
            case .added: 0
            }
        }

        /// Returns whether two sources are the same bytes of the same answer, even if one of them was read again.
        /// Compares the bytes if the answers look the same.
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
    /// The removals that concern the picture since the work began.
    let removals: Removals
    /// Whether no task waits any more.
    private let cancelled = Atomic(false)
    private let begun = Atomic(false)
    private let state = Mutex(State())

    /// A move of the work to another place in the queue. Moves are numbered, because one may overtake another on its
    /// way to the queue.
    private struct Move {
        let number: Int
        let wish: Wish
        let change: Int
    }

    /// Whether the source's bytes count in the backlog of the decoder.
    private enum Backlog {
        case before, counted, after
    }

    private struct State {
        var wishes = Wishes<ImageTask, Wish>()
        /// The number of the work in the queue; `nil` until the work is there.
        var number: Int?
        /// The wish that the queue was told last. `changes` counts how often it has changed.
        var told: Wish?
        var changes = 0
        var isOver = false
        var backlog = Backlog.before

        /// Returns the move that brings the work to its new place, or `nil` if its place has not changed.
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

    /// Whether the picture may be kept in every tier, because no removal concerns it.
    var isCurrent: Bool { removals.tiers(for: source.info).isEmpty }

    /// Whether the result is an added picture without changes.
    var isAddedItself: Bool { if case .added = source { options.chain.processors.isEmpty } else { false } }

    /// Returns whether the result would be a fresh answer to the request.
    func serves(_ request: ImageRequest, _ originals: DataCache) -> Bool {
        isCurrent && !source.info.isStandIn && originals.use(of: source.info, for: request.data) == .fresh
    }

    /// Returns `true` the first time: the caller then puts the work into the queue.
    func begin() -> Bool { !begun.exchange(true, ordering: .relaxed) }

    /// Counts the source's bytes in the backlog of the decoder. Must be called once.
    func count() {
        loader.backlog.take(source.size)
        // All tasks may have left before the bytes were counted.
        let isLate = state.withLock { state in
            if state.backlog == .before { state.backlog = .counted }
            return state.backlog == .after
        }
        if isLate { loader.backlog.give(source.size) }
    }

    /// Removes the source's bytes from the backlog, or keeps them from being counted. Has no effect the second time.
    func discount() {
        let wasCounted = state.withLock { exchange(&$0.backlog, with: .after) == .counted }
        if wasCounted { loader.backlog.give(source.size) }
    }

    // MARK: Waiting tasks

    var waiters: [ImageTask] { state.withLock { $0.wishes.all } }

    /// Adds a task that waits for the picture. Returns `false` if the work is over.
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

    /// Takes note of a task's new queue or priority.
    func update(_ task: ImageTask) {
        let move = state.withLock { state -> Move? in
            guard state.wishes.contains(task) else { return nil }
            state.wishes.set(task, task.wish)
            return state.move()
        }
        tell(move)
    }

    /// Closes the work, which no task can join afterwards, and returns the waiting tasks.
    func close() -> [ImageTask] {
        let wishes = state.withLock { state in
            state.isOver = true
            return exchange(&state.wishes, with: Wishes())
        }
        return wishes.all
    }

    /// Drops the work if no task waits for it.
    func dropIfUnwanted() {
        let isUnwanted = state.withLock { state in
            guard !state.isOver, state.wishes.isEmpty else { return false }
            state.isOver = true
            return true
        }
        if isUnwanted { loader.dropped(self, number: nil) }
    }

    // MARK: Queue

    /// Puts the work into the queue, in the place of its most urgent task.
    /// - Returns: `false` if the queue accepts no more work.
    func enqueue(_ run: @escaping @Sendable () -> Void) -> Bool {
        let wish = state.withLock { state in
            state.told = state.wishes.strongest
            return state.wishes.strongest
        }
        guard let number = loader.queue.add(place(wish), cost: cost, run) else { return false }
        // Before the work had its number, a task may have joined or changed its wish, or all tasks may have left.
        let (move, isOver) = state.withLock { state -> (Move?, Bool) in
            state.number = number
            return (state.move(), state.isOver)
        }
        if isOver { loader.queue.remove(number) }
        tell(move)
        return true
    }

    /// Estimates the bytes of pixels that making the picture takes, from the header of the source.
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
    /// Returns whether two objects may describe the same answer. An answer read from disk is another object with fewer
    /// header fields.
    fileprivate func isLike(_ other: EntryInfo) -> Bool {
        stored == other.stored && status == other.status && isStandIn == other.isStandIn
    }
}
