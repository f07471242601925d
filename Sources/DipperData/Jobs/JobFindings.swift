/// The entries and partial bodies that look-ups and attempts of a job have left, and the right to keep what follows.
///
/// Releasing a claim or a body takes time or a lock, so each method returns what it drops, to be released without a
/// lock.
struct JobFindings: Sendable {
    /// The answer that the tiers had.
    private(set) var found: FetchJob.Found?
    /// The beginning of the body, which an attempt that was broken off has left.
    private(set) var partial: PartialBody?
    /// The right to keep what is fetched, claimed at the first look-up or attempt.
    private(set) var claim: Claim?
    private var hasPartialOnDisk = false
    /// Whether the partial body is on disk only, because there was no room for it in memory while the job was parked.
    private(set) var isLeftOnDisk = false
    /// The bytes of ``partial`` that count towards the budget of parked jobs.
    private(set) var parked = 0
    /// The length in bytes of the longest partial body for which there was no room.
    private(set) var longestDropped = 0

    /// Values that are no longer part of the findings.
    struct Dropped: Sendable {
        var claim: Claim?
        var found: FetchJob.Found?
        var partial: PartialBody?
    }

    // MARK: Look-ups

    /// Notes an answer of the tiers, unless there is one.
    mutating func find(_ found: FetchJob.Found?) {
        if self.found == nil { self.found = found }
    }

    /// Takes what a look-up has found.
    /// - Parameters:
    ///   - fresh: the right to keep it, claimed before the look-up began.
    ///   - isAttempting: whether an attempt is under way, which has a beginning of its own.
    mutating func lookedUp(
        _ found: FetchJob.Found?, _ partial: PartialBody?, _ fresh: Claim, isAttempting: Bool
    ) -> Dropped {
        var dropped = Dropped(found: exchange(&self.found, with: found))
        let takesPartial = partial != nil && self.partial == nil && !isAttempting
        if takesPartial {
            self.partial = partial
            hasPartialOnDisk = true
            isLeftOnDisk = false
        }
        // If the tiers have nothing, nothing older will be part of what is fetched. An attempt has a claim of its own,
        // which may be later than a removal of what has been found.
        let holds = claim == nil || fresh.isRevoked
        if holds, found != nil || takesPartial { dropped.claim = exchange(&claim, with: fresh) }
        return dropped
    }

    // MARK: Attempts

    /// Gives an attempt the right to keep what it fetches. If the entry has been removed since the last attempt, what
    /// was found and the partial body are dropped, because they belong to the removed entry.
    mutating func reclaim(_ fresh: Claim, _ history: StoreHistory) -> Dropped {
        var dropped = Dropped()
        let isRevoked = claim?.isRevoked == true
        if isRevoked || found.map({ !history.admits($0.value.info) }) == true { swap(&found, &dropped.found) }
        if isRevoked {
            swap(&partial, &dropped.partial)
            isLeftOnDisk = false
        }
        // A whole entry has been kept since, so nothing older will be part of what is fetched now.
        if isRevoked || claim?.allowsPartial != true { dropped.claim = exchange(&claim, with: fresh) }
        return dropped
    }

    /// Takes the beginning that an attempt has left.
    mutating func interrupted(_ partial: PartialBody?, keepsOnDisk: Bool) -> Dropped {
        if keepsOnDisk { hasPartialOnDisk = true }
        return Dropped(partial: exchange(&self.partial, with: partial))
    }

    /// Drops the partial body because the whole has been fetched.
    /// - Returns: whether it was on disk as well, and what is dropped.
    mutating func complete() -> (wasOnDisk: Bool, dropped: Dropped) {
        (exchange(&hasPartialOnDisk, with: false), dropPartial())
    }

    /// Drops the partial body because it is of another source. What is on disk stays.
    mutating func dropPartial() -> Dropped { Dropped(partial: exchange(&partial, with: nil)) }

    /// Drops what the last answer was about, because the job begins anew for another call.
    mutating func beginAnew() -> Dropped {
        Dropped(found: exchange(&found, with: nil), partial: exchange(&partial, with: nil))
    }

    // MARK: Parking

    /// Parks the partial body in memory, if there is room. Otherwise the next attempt reads it from disk, if it is
    /// there, or begins anew.
    /// - Parameter held: the bytes that were counted for the transfer.
    mutating func park(insteadOf held: Int, in bodies: inout BodyBudget) -> Dropped {
        let count = parked > 0 ? 0 : partial?.bytes.count ?? 0
        if bodies.park(count, insteadOf: held) {
            parked += count
            return Dropped()
        }
        isLeftOnDisk = hasPartialOnDisk
        longestDropped = max(longestDropped, count)
        return dropPartial()
    }

    /// Counts the parked bytes as the next transfer's.
    /// - Returns: the number of bytes.
    mutating func unpark() -> Int { exchange(&parked, with: 0) }

    /// Takes the partial body that ``park(insteadOf:in:)`` has left to the disk, unless there is one by now.
    /// - Parameter partial: the body that has been read; `nil` if it is gone.
    /// - Returns: whether the job keeps it.
    mutating func readBack(_ partial: PartialBody?) -> Bool {
        isLeftOnDisk = false
        guard self.partial == nil, let partial else { return false }
        self.partial = partial
        return true
    }
}
