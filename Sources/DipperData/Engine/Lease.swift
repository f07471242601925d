import Foundation

/// Work that one of several caches should do for all: a fetch, or the making of an object.
@Loop
protocol LeasedWork: AnyObject, Sendable {
    var engine: Engine { get }
    var queue: FetchQueue { get }
    /// Whether what another cache keeps will do for all that wait.
    var mayWaitForOthers: Bool { get }
    /// When the key was looked up, on the system's clock.
    var lookUpTime: Date { get }
    /// Whether the tiers that others read may get the result.
    var mayBeShared: Bool { get }

    /// Goes on: the admission that was asked for comes later.
    func admitted()
    /// Waits for the news of another cache. Called again during the wait.
    func waitForOthers()
    /// Looks the key up again. Unless it is there, the work asks for admission again.
    /// - Parameters:
    ///   - isForAll: whether what is there answers all that have waited.
    ///   - isOnDisk: whether it is in the folder, so that also what was there before may have been confirmed.
    func lookAgain(isForAll: Bool, isOnDisk: Bool)
    func failedElsewhere(_ error: DipperError)
    /// - Parameter queue: the most urgent one in which a call of another cache waits; `nil` for none.
    func hurry(_ queue: FetchQueue?)
    /// Returns how far the work is.
    /// - Parameter mark: tells one who asks how far it was when he asked last.
    func news(since mark: inout Int) -> LeaseNews
}

/// The leases of one piece of work, one of each service: that of the folder first, then those of the program.
@Loop
final class Lease {
    private struct Level {
        let claim: any LeaseClaim
        /// Whether the others look the key up in the program's tiers.
        let usesTiers: Bool
        var rules: LeaseRules
        var mark = 0
        var isOver = false
    }

    private let engine: Engine
    /// `nil` after the end.
    private var work: (any LeasedWork)?
    private var levels: [Level] = []
    /// The number of services that have admitted the work.
    private var admissions = 0
    private var isAdmitting = false
    private var timer: (id: Engine.TimerID, due: Duration)?
    /// The latest news of the holder that the work waits for, and its number.
    private var heard = (news: LeaseNews.still, number: 0)
    private(set) var isWaiting = false
    /// How the work has ended, for those who wait.
    var outcome = LeaseNews.abandoned
    /// The write that they wait for as well.
    var write: PendingWrite?
    /// The end of the storing in the program's tiers, for those who look there.
    private var sharing: PendingWrite?

    /// `nil` if there is no service.
    init?(_ key: CacheKey, for work: some LeasedWork, in store: DataStore) {
        engine = work.engine
        let options = engine.options.leases
        let hasTiers = store.tiers != nil
        let folder: [any LeaseService] = (store.disk?.leases).map { [$0] } ?? []
        // What the tiers do not get is of no use to those who look there.
        let services = folder + (hasTiers && !work.mayBeShared ? [] : options.services)
        if services.isEmpty { return nil }
        self.work = work
        for (number, service) in services.enumerated() {
            let claim = service.claim(key) { [engine] event in
                engine.perform { _ in self.handle(.reported(event), number) }
            }
            let rules = LeaseRules(
                patience: options.patience, longestWait: options.longestWait, placesExpire: service.placesExpire)
            levels.append(Level(claim: claim, usesTiers: hasTiers && number >= folder.count, rules: rules))
        }
    }

    /// Returns whether the work may go on at once. Otherwise it has been told to wait or to look again, or will be told.
    func admits() -> Bool {
        guard admissions < levels.count, let work else { return true }
        isAdmitting = true
        defer { isAdmitting = false }
        handle(.turn(mayWait: work.mayWaitForOthers), admissions)
        return admissions == levels.count
    }

    private func handle(_ event: LeaseRules.Event, _ number: Int) {
        guard levels.indices.contains(number), !levels[number].isOver else { return }
        if case .reported(.told(let news, by: _)) = event { heard = (news, heard.number + 1) }
        let action = levels[number].rules.handle(event, at: engine.time.now())
        guard let work else {
            // The lease stays until others can find the result.
            if action == .tell { levels[number].claim.tell(.still) }
            return arm()
        }
        switch action {
        case .take(let place): levels[number].claim.take(place, since: work.lookUpTime)
        case .fetch:
            guard number == admissions else { break }
            isWaiting = false
            admissions += 1
            if admissions < levels.count {
                handle(.turn(mayWait: work.mayWaitForOthers), admissions)
            } else if !isAdmitting {
                work.admitted()
            }
        case .wait:
            isWaiting = true
            levels[number].claim.watch(in: work.queue)
            work.waitForOthers()
        case .look, .use:
            isWaiting = false
            work.lookAgain(isForAll: action == .use, isOnDisk: !levels[number].usesTiers)
        case .fail(let error):
            isWaiting = false
            work.failedElsewhere(error)
        case .tell: levels[number].claim.tell(news(since: &levels[number].mark))
        case .hurry(let queue):
            // What was before is no news for those who come now.
            if levels[number].mark == 0 { _ = news(since: &levels[number].mark) }
            work.hurry(queue)
        case nil: break
        }
        arm()
    }

    /// How far the work is, or the holder that it waits for; see ``LeasedWork/news(since:)``.
    func news(since mark: inout Int) -> LeaseNews {
        guard isWaiting else { return work?.news(since: &mark) ?? .still }
        return exchange(&mark, with: heard.number) == heard.number ? .still : heard.news
    }

    // MARK: Changes

    /// The queue of the work has changed.
    func moved(to queue: FetchQueue) {
        if isWaiting, admissions < levels.count { levels[admissions].claim.watch(in: queue) }
    }

    private func arm() {
        guard let due = levels.lazy.filter({ !$0.isOver }).compactMap(\.rules.due).min(),
            timer.map({ due < $0.due }) ?? true
        else { return }
        if let timer { engine.timers.cancel(timer.id) }
        timer = (engine.timers.add(at: due, .lease(self)), due)
    }

    func elapsed() {
        timer = nil
        for number in levels.indices { handle(.time, number) }
        arm()
    }

    // MARK: The end

    /// Gives the lease back, once the write has ended of which others wait for the result.
    func end() {
        guard exchange(&work, with: nil) != nil else { return }
        for (number, level) in levels.enumerated().reversed() {
            guard outcome != .abandoned, let awaited = level.usesTiers ? sharing ?? write : write else {
                end(number, as: outcome)
                continue
            }
            awaited.whenEnded { [engine, outcome] isThere in
                engine.perform { _ in self.end(number, as: outcome == .kept && !isThere ? .unshared : outcome) }
            }
        }
    }

    private func end(_ number: Int, as outcome: LeaseNews) {
        levels[number].isOver = true
        levels[number].claim.end(outcome)
        guard levels.allSatisfy(\.isOver) else { return }
        levels = []
        if let timer = exchange(&timer, with: nil) { engine.timers.cancel(timer.id) }
    }

    /// Returns what the storing in the program's tiers is told; `nil` if nobody waits for it.
    static func sharing(for leases: [Lease]) -> Sharing? {
        let leases = leases.filter { $0.levels.contains(where: \.usesTiers) }
        if leases.isEmpty { return nil }
        let sharing = PendingWrite()
        for lease in leases { lease.sharing = sharing }
        return Sharing(sharing.end)
    }
}
