/// The rules by which one cache takes part in the lease of one key: when it asks for a place, waits, fetches, or fetches
/// without a lease. A value without I/O and without a clock, for every ``LeaseService``.
///
/// - Who has a place fetches. Who is refused waits, unless a call insists on the network.
/// - A holder that brings nothing for `patience`, or does not end within `longestWait`, is joined by one more cache, in
///   the second place. Nobody joins two, unless both have said nothing for `patience` and their places do not expire:
///   they are stopped, so they are not at the server either.
/// - After a holder's end or death all that waited look the key up. What it has kept answers them, as it answers the
///   calls of its own cache. If the holder has given up, they ask for its place. If it has an answer that is not for
///   them, each asks the server: they would wait for one another in vain.
/// - Each new holder has `patience` of its own, but all together have `longestWait`, without their back-offs.
/// - A service that does not answer is asked again, ever less often. After `patience` the cache does without it.
package struct LeaseRules: Sendable {
    package enum Stage: Sendable, Hashable {
        case outside
        case asking
        case waiting
        case holding(LeasePlace)
        /// Fetches without a lease.
        case alone
    }

    package enum Event: Sendable {
        /// The fetch has its turn.
        case turn(mayWait: Bool)
        case reported(LeaseEvent)
        /// The time that ``due`` has told has come.
        case time
    }

    package enum Action: Sendable, Hashable {
        case take(LeasePlace)
        case fetch
        /// Wait for the news of the holders, without a slot of a queue.
        case wait
        /// Look the key up; unless it is there, the fetch has its turn again.
        case look
        /// Look up the answer that a holder has kept for all that waited, even if it is for nobody who comes later.
        case use
        case fail(DipperError)
        case tell
        case hurry(FetchQueue?)
    }

    private struct Wait: Sendable {
        /// When a holder has brought bytes last, or will end its back-off.
        var moved: Duration
        /// When a holder was heard last.
        var heard: Duration
        /// When the second place is asked for once more, because it was taken.
        var again: Duration?
        /// When the place is asked for once more, because its holder cannot be heard, and how often it was.
        var poll: Duration?
        var polls = 0
    }

    /// A question that the service has not answered.
    private struct Question: Sendable {
        let place: LeasePlace
        let first: Duration
        var again: Duration
    }

    private let patience: Duration
    private let longestWait: Duration
    private let placesExpire: Bool
    package private(set) var stage = Stage.outside
    private var wait: Wait?
    /// When the wait for the first of all holders began, without their back-offs.
    private var since: Duration?
    private var pausedUntil = Duration.zero
    private var question: Question?
    private var mayWait = false
    /// Whether a holder has had an answer, so that another wait would be in vain.
    private var isServed = false
    private var isAwaited = false
    private var lifetime: Duration?
    private var told = Duration.zero

    package init(patience: Duration, longestWait: Duration, placesExpire: Bool) {
        (self.patience, self.longestWait, self.placesExpire) = (patience, longestWait, placesExpire)
    }

    /// The time of the next ``Event/time``.
    package var due: Duration? {
        switch stage {
        case .asking: question?.again
        case .waiting: question?.again ?? wait.map { $0.poll ?? $0.again ?? deadline(of: $0) }
        case .holding: isAwaited || lifetime != nil ? told + interval : nil
        case .outside, .alone: nil
        }
    }

    private func deadline(of wait: Wait) -> Duration {
        min(wait.moved + patience, (since ?? wait.moved) + longestWait)
    }

    /// Between two tellings.
    private var interval: Duration { min(patience / 4, (lifetime ?? patience) / 3) }

    package mutating func handle(_ event: Event, at now: Duration) -> Action? {
        switch event {
        case .turn(let mayWait): turn(mayWait, now)
        case .time: elapsed(now)
        case .reported(.taken(let place, let mayBeKept, let lifetime)): taken(place, mayBeKept, lifetime, now)
        case .reported(.refused(let place)): refused(place, now)
        // An answer to an earlier question may come when the place is held.
        case .reported(.unavailable): stage == .asking || stage == .waiting ? goAlone() : nil
        case .reported(.told(let news, let place)): told(news, place, now)
        case .reported(.gone(let place)): lost(place)
        case .reported(.unheard): unheard(now)
        case .reported(.awaited(let queue)): awaited(queue, now)
        case .reported(.lost): expired()
        }
    }

    private mutating func turn(_ mayWait: Bool, _ now: Duration) -> Action? {
        switch stage {
        case .holding, .alone: return .fetch
        case .asking: return nil
        case .outside, .waiting:
            self.mayWait = mayWait && !isServed
            stage = .asking
            return ask(.first, now)
        }
    }

    private mutating func ask(_ place: LeasePlace, _ now: Duration) -> Action {
        question = Question(place: place, first: now, again: now + patience / Self.firstLimit)
        return .take(place)
    }

    /// A part of the patience.
    private static let firstLimit = 40

    private mutating func goAlone() -> Action? {
        if stage == .alone { return nil }
        (stage, wait, question) = (.alone, nil, nil)
        return .fetch
    }

    private mutating func taken(
        _ place: LeasePlace, _ mayBeKept: Bool, _ lifetime: Duration?, _ now: Duration
    ) -> Action? {
        // The fetch may go on by itself already, or look the key up.
        let isLate = stage != .asking && stage != .waiting
        (stage, wait, question) = (.holding(place), nil, nil)
        (self.lifetime, told) = (lifetime, now)
        return isLate ? nil : mayBeKept && mayWait ? .look : .fetch
    }

    private mutating func refused(_ place: LeasePlace, _ now: Duration) -> Action? {
        guard stage == .asking || stage == .waiting else { return nil }
        if !mayWait { return goAlone() }
        (stage, question) = (.waiting, nil)
        if since == nil { since = now }
        var wait = wait ?? Wait(moved: now, heard: now)
        wait.poll = nil
        defer { if stage == .waiting { self.wait = wait } }
        switch place {
        case .first:
            if deadline(of: wait) <= now, wait.again.map({ $0 <= now }) ?? true { return ask(.second, now) }
        case .second:
            // One that is new has time to be heard.
            if wait.again == nil { wait.heard = now }
            if wait.heard + patience <= now, !placesExpire { return goAlone() }
            wait.again = now + patience
        }
        return .wait
    }

    private mutating func elapsed(_ now: Duration) -> Action? {
        guard let due, due <= now else { return nil }
        if case .holding = stage {
            told = now
            return .tell
        }
        guard var question else {
            // News may be lost, so the first place comes first.
            return ask(.first, now)
        }
        if now - question.first >= patience { return goAlone() }
        // Twice as long as before.
        question.again = min(now + (now - question.first), question.first + patience)
        self.question = question
        return .take(question.place)
    }

    private mutating func told(_ news: LeaseNews, _ place: LeasePlace, _ now: Duration) -> Action? {
        guard stage == .waiting, wait != nil else { return nil }
        wait?.heard = now
        wait?.poll = nil
        wait?.polls = 0
        switch news {
        case .still: return nil
        case .moving: wait?.moved = now
        case .pausing(let time):
            // A long one counts, so that nobody waits without end.
            let end = now + time
            if time <= longestWait, end > pausedUntil {
                since = since.map { $0 + end - max(now, pausedUntil) }
                pausedUntil = end
            }
            wait?.moved = end
        case .kept, .unshared:
            isServed = true
            return leave(news == .kept ? .use : .look)
        case .failed(let error): return leave(.fail(error))
        case .abandoned: return lost(place)
        }
        return nil
    }

    private mutating func leave(_ action: Action) -> Action {
        (stage, wait, question) = (.outside, nil, nil)
        return action
    }

    private mutating func lost(_ place: LeasePlace) -> Action? {
        guard stage == .waiting else { return nil }
        // Whoever has waited long enough for the first holder does not wait as long once more.
        let rest = place == .second ? wait : nil
        _ = leave(.look)
        wait = rest
        wait?.again = nil
        return .look
    }

    private mutating func unheard(_ now: Duration) -> Action? {
        guard stage == .waiting, let polls = wait?.polls, wait?.again == nil else { return nil }
        wait?.polls += 1
        wait?.poll = now + min(Self.shortestPoll * (1 << min(polls, 16)), Self.longestPoll)
        return nil
    }

    private static let shortestPoll = Duration.milliseconds(1)
    private static let longestPoll = Duration.milliseconds(250)

    private mutating func awaited(_ queue: FetchQueue?, _ now: Duration) -> Action? {
        guard case .holding = stage else { return nil }
        if queue != nil, !isAwaited, lifetime == nil { told = now }
        isAwaited = queue != nil
        return .hurry(queue)
    }

    private mutating func expired() -> Action? {
        if case .holding = stage { stage = .alone }
        return nil
    }
}
