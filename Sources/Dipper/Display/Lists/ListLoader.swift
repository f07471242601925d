import DipperData
import Dispatch
import Foundation
import Synchronization

/// Fetches the pictures of a list, a grid, anything that scrolls: it is told which rows can be seen, and makes the calls.
///
/// Rows on screen are fetched urgently, the next ones in the direction of travel by a few prefetches; those that have
/// been scrolled past go on as prefetches, and are cancelled once they are far away. Rows that rush by are shown only if
/// the cache has them: what the list comes to rest at is not kept waiting by what nobody could have seen.
///
/// ```swift
/// let list = ListLoader(cache, count: photos.count) { row in [ImageRequest(photos[row])] }
/// list.update(visible: 120..<140)      // whenever the list scrolls
/// list.attach(binding, to: row)        // when a row gets a display
/// ```
///
/// Letting go of the last reference ends what it has under way.
public final class ListLoader: Sendable {
    private struct Plan {
        var arrangement: ListArrangement
        var displays: [ObjectIdentifier: Attached] = [:]
        var isArranging = false
        var awaitsRest = false
    }

    private struct Attached {
        weak var binding: ImageBinding?
        let row: Int
    }

    private let plan: Mutex<Plan>
    private let calls: ListCalls
    private let time: TimeSource
    private let timers: TimerQueue

    /// A loader for a list of which nothing can be seen yet.
    /// - Parameters:
    ///   - cache: where the pictures come from.
    ///   - count: rows of the list.
    ///   - options: how far ahead it looks.
    ///   - clock: what the speed of the list is measured by.
    ///   - requests: the pictures of a row, as its displays ask for them. Called on a queue of the loader's own, a moment
    ///     after the list was told to have other rows too: it is to hold what it reads, and not the loader. Called also
    ///     by ``attach(_:to:request:placeholder:options:then:)``.
    public init(
        _ cache: ImageCache = .shared, count: Int, options: ListOptions = ListOptions(),
        clock: any Clock<Duration> = ContinuousClock(), requests: @escaping @Sendable (Int) -> [ImageRequest]
    ) {
        plan = Mutex(Plan(arrangement: .init(window: ListWindow(count: count, options), requests: requests)))
        calls = ListCalls(cache, maxPrefetches: options.maxPrefetches)
        time = TimeSource(clock)
        timers = TimerQueue(time)
    }

    deinit {
        timers.end()
        calls.end()
    }

    // MARK: What the list tells

    /// Other rows can be seen. To be called on the displays' queue, if there are any.
    /// - Parameters:
    ///   - rows: those on screen, be it in part. What is outside the list is left out.
    ///   - destination: where the list will come to rest, if the toolkit knows.
    public func update(visible rows: Range<Int>, heading destination: Range<Int>? = nil) {
        let now = time.now()
        change { $0.move(to: rows, heading: destination, at: now) }
        moveDisplays()
        awaitRest()
    }

    /// The list has other rows: all calls are made anew. Displays are to be attached again, or detached.
    /// - Parameters:
    ///   - count: of the new rows.
    ///   - requests: their pictures.
    public func reload(count: Int, requests: @escaping @Sendable (Int) -> [ImageRequest]) {
        let old = plan.withLock { plan in
            let old = (plan.displays, plan.arrangement)
            plan.displays = [:]
            plan.arrangement.requests = requests
            plan.arrangement.generation += 1
            plan.arrangement.window.reload(count: count)
            return old
        }
        withExtendedLifetime(old) {}
        arrange()
    }

    private func change(_ event: (inout ListWindow) -> Void) {
        plan.withLock { event(&$0.arrangement.window) }
        arrange()
    }

    private func arrange() {
        let isArranging = plan.withLock { exchange(&$0.isArranging, with: true) }
        guard !isArranging else { return }
        calls.arrange { [weak self] in
            self?.plan.withLock { plan in
                plan.isArranging = false
                return plan.arrangement
            }
        }
    }

    private func awaitRest() {
        let now = time.now()
        let wait = plan.withLock { plan -> Duration? in
            guard !plan.awaitsRest, let rest = plan.arrangement.window.restsAt else { return nil }
            plan.awaitsRest = true
            return rest - now
        }
        guard let wait else { return }
        timers.schedule(after: wait) { [weak self] in self?.restIfDue() }
    }

    private func restIfDue() {
        let now = time.now()
        let isDue = plan.withLock { plan in
            plan.awaitsRest = false
            guard let rest = plan.arrangement.window.restsAt, rest <= now else { return false }
            plan.arrangement.window.rest()
            return true
        }
        guard isDue else { return awaitRest() }
        arrange()
        bindings().first?.onQueue { [weak self] in self?.moveDisplays() }
    }

    // MARK: Displays

    /// Shows a row's picture in a display, and tells the display's binding from now on whether it is on screen, until it
    /// is attached to another row, or detached. To be called on the display's queue, which is that of all displays of
    /// the list.
    /// - Parameters:
    ///   - binding: of the display.
    ///   - row: whose picture is shown.
    ///   - request: which of them; `nil` for the first.
    ///   - placeholder: shown until it is there.
    ///   - options: `nil` for those of the binding.
    ///   - completion: called once, as by ``ImageBinding/setImage(_:placeholder:options:then:)-(ImageRequest?,_,_,_)``.
    public func attach(
        _ binding: ImageBinding, to row: Int, request: ImageRequest? = nil, placeholder: Placeholder? = nil,
        options: DisplayOptions? = nil, then completion: ImageBinding.Completion? = nil
    ) {
        let (presence, requests, isRow) = plan.withLock { plan in
            plan.displays[ObjectIdentifier(binding)] = Attached(binding: binding, row: row)
            let isRow = (0..<plan.arrangement.window.count).contains(row)
            return (Self.presence(of: row, plan.arrangement.window), plan.arrangement.requests, isRow)
        }
        let options = (options ?? binding.options).with(\.loadsOffScreen, false).with(\.abandonment, .cancel)
        let wanted = request ?? (isRow ? requests(row).first : nil)
        binding.set(wanted, placeholder, options, presence, completion)
    }

    /// The display shows no row any more. To be called on the display's queue.
    public func detach(_ binding: ImageBinding) {
        _ = plan.withLock { $0.displays.removeValue(forKey: ObjectIdentifier(binding)) }
        binding.move(to: .away)
    }

    /// On the displays' queue.
    private func moveDisplays() {
        for binding in bindings() {
            // A display that is moved may change what others show.
            let presence = plan.withLock { plan in
                plan.displays[ObjectIdentifier(binding)].map { Self.presence(of: $0.row, plan.arrangement.window) }
            }
            if let presence { binding.move(to: presence) }
        }
    }

    /// Those that are still there.
    private func bindings() -> [ImageBinding] {
        let all = plan.withLock { plan in plan.displays.map { (id: $0.key, binding: $0.value.binding) } }
        let gone = all.filter { $0.binding == nil }.map(\.id)
        if !gone.isEmpty {
            plan.withLock { plan in
                // Its place may have been taken since.
                for id in gone where plan.displays[id]?.binding == nil { plan.displays[id] = nil }
            }
        }
        return all.compactMap(\.binding)
    }

    private static func presence(of row: Int, _ window: ListWindow) -> DisplayState.Presence {
        switch window.rank(of: row) {
        case .visible: .visible
        case .passing: .passing
        // What is near is the loader's to fetch, in its order.
        case .near, .far: .away
        }
    }
}
