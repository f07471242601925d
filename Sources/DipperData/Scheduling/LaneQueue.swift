import HeapModule

/// The queued jobs of one lane, by priority and then by order of arrival, and the count of its running ones.
///
/// Jobs are linked through their slots, one list for each of the 101 priority levels. With a limit per host each
/// host has lists of its own, and a heap of the hosts that may start something tells whose job is next.
struct LaneQueue {
    /// The queued jobs of one host, or of all of them where there is no limit per host.
    struct Group {
        var heads: [Int32] = Array(repeating: -1, count: 101)
        var tails: [Int32] = Array(repeating: -1, count: 101)
        /// A bit for each level that has a job.
        var levels: UInt128 = 0
        var queued = 0
        var running = 0
        var host: String?

        var highestLevel: Int? { levels == 0 ? nil : 127 - levels.leadingZeroBitCount }
    }

    /// A group's next job at the time it was noted; stale once the group has another.
    private struct Candidate: Comparable {
        var level: UInt8
        /// Lower is earlier, whatever the lane's order.
        var rank: Int64
        var group: Int32
        var job: Int32

        static func < (a: Self, b: Self) -> Bool {
            a.level != b.level ? a.level > b.level : a.rank < b.rank
        }
    }

    var configuration: LaneConfiguration
    private(set) var queued = 0
    private(set) var running = 0
    private var groups: [Group] = [Group()]
    private var groupsByHost: [String: Int32] = [:]
    private var freeGroups: [Int32] = []
    private var candidates = Heap<Candidate>()
    private var nextOrder: Int64 = 0
    private var firstOrder: Int64 = -1

    init(_ configuration: LaneConfiguration) {
        self.configuration = configuration
    }

    var isGrouped: Bool { configuration.maxPerHost != nil }

    var hasRoom: Bool { running < max(1, configuration.maxConcurrent) && !configuration.isSuspended }

    // MARK: Groups

    /// The group that counts a job for `host`.
    mutating func group(for host: @autoclosure () -> String) -> Int32 {
        guard isGrouped else { return 0 }
        let host = host()
        if let group = groupsByHost[host] { return group }
        let index: Int32
        if let free = freeGroups.popLast() {
            index = free
        } else {
            index = Int32(groups.count)
            groups.append(Group())
        }
        groups[Int(index)].host = host
        groupsByHost[host] = index
        return index
    }

    private mutating func releaseIfEmpty(_ group: Int32) {
        guard group != 0, groups[Int(group)].queued == 0, groups[Int(group)].running == 0,
            let host = groups[Int(group)].host
        else { return }
        groupsByHost[host] = nil
        groups[Int(group)].host = nil
        freeGroups.append(group)
    }

    private func mayStart(_ group: Int32) -> Bool {
        guard let limit = configuration.maxPerHost else { return true }
        return groups[Int(group)].running < max(1, limit)
    }

    // MARK: Running jobs

    mutating func addRunning(group: Int32) {
        running += 1
        groups[Int(group)].running += 1
    }

    mutating func removeRunning<W, K>(group: Int32, slots: JobSlots<W, K>) {
        running -= 1
        groups[Int(group)].running -= 1
        noteCandidate(of: group, slots)
        releaseIfEmpty(group)
    }

    // MARK: Queued jobs

    /// Links a job in as the latest to arrive, or in front of all its equals.
    mutating func insert<W, K>(_ job: Int32, first: Bool, into slots: inout JobSlots<W, K>) {
        // In LIFO order jobs are taken from the tail: there the latest is in front already.
        let atHead = first && configuration.order == .fifo
        let level = Int(slots.jobs[Int(job)].level)
        let group = slots.jobs[Int(job)].group
        if atHead {
            let head = groups[Int(group)].heads[level]
            slots.jobs[Int(job)].order = firstOrder
            firstOrder -= 1
            slots.jobs[Int(job)].previous = -1
            slots.jobs[Int(job)].next = head
            if head >= 0 { slots.jobs[Int(head)].previous = job } else { groups[Int(group)].tails[level] = job }
            groups[Int(group)].heads[level] = job
        } else {
            let tail = groups[Int(group)].tails[level]
            slots.jobs[Int(job)].order = nextOrder
            nextOrder += 1
            slots.jobs[Int(job)].next = -1
            slots.jobs[Int(job)].previous = tail
            if tail >= 0 { slots.jobs[Int(tail)].next = job } else { groups[Int(group)].heads[level] = job }
            groups[Int(group)].tails[level] = job
        }
        groups[Int(group)].levels |= 1 << UInt128(level)
        groups[Int(group)].queued += 1
        queued += 1
        if next(in: group) == job { noteCandidate(of: group, slots) }
    }

    mutating func remove<W, K>(_ job: Int32, from slots: inout JobSlots<W, K>) {
        let level = Int(slots.jobs[Int(job)].level)
        let group = slots.jobs[Int(job)].group
        let wasNext = isGrouped && next(in: group) == job
        let previous = slots.jobs[Int(job)].previous
        let following = slots.jobs[Int(job)].next
        if previous >= 0 {
            slots.jobs[Int(previous)].next = following
        } else {
            groups[Int(group)].heads[level] = following
        }
        if following >= 0 {
            slots.jobs[Int(following)].previous = previous
        } else {
            groups[Int(group)].tails[level] = previous
        }
        slots.jobs[Int(job)].previous = -1
        slots.jobs[Int(job)].next = -1
        if groups[Int(group)].heads[level] < 0 {
            groups[Int(group)].levels &= ~(1 << UInt128(level))
        }
        groups[Int(group)].queued -= 1
        queued -= 1
        if wasNext { noteCandidate(of: group, slots) }
        releaseIfEmpty(group)
    }

    /// The job that starts next, left in its place; `nil` if none may start.
    mutating func next<W, K>(_ slots: JobSlots<W, K>) -> Int32? {
        guard isGrouped else {
            let job = next(in: 0)
            return job >= 0 ? job : nil
        }
        while let best = candidates.min {
            if mayStart(best.group), next(in: best.group) == best.job,
                best == candidate(best.job, slots)
            {
                return best.job
            }
            candidates.removeMin()
        }
        return nil
    }

    private func next(in group: Int32) -> Int32 {
        guard let level = groups[Int(group)].highestLevel else { return -1 }
        return configuration.order == .fifo ? groups[Int(group)].heads[level] : groups[Int(group)].tails[level]
    }

    private func candidate<W, K>(_ job: Int32, _ slots: JobSlots<W, K>) -> Candidate {
        let order = slots.jobs[Int(job)].order
        return Candidate(
            level: slots.jobs[Int(job)].level, rank: configuration.order == .fifo ? order : -order,
            group: slots.jobs[Int(job)].group, job: job)
    }

    private mutating func noteCandidate<W, K>(of group: Int32, _ slots: JobSlots<W, K>) {
        guard isGrouped, mayStart(group) else { return }
        let job = next(in: group)
        guard job >= 0 else { return }
        candidates.insert(candidate(job, slots))
        // Stale candidates go when they come up; a lane that starts nothing sheds them here.
        if candidates.count > 2 * groups.count + 64 { refillCandidates(slots) }
    }

    mutating func refillCandidates<W, K>(_ slots: JobSlots<W, K>) {
        candidates = Heap()
        guard isGrouped else { return }
        for group in groups.indices where mayStart(Int32(group)) {
            let job = next(in: Int32(group))
            if job >= 0 { candidates.insert(candidate(job, slots)) }
        }
    }

    /// The queued jobs in the order of their lists, for putting them into other groups.
    func allQueued<W, K>(_ slots: JobSlots<W, K>) -> [Int32] {
        var jobs: [Int32] = []
        for group in groups {
            for head in group.heads {
                var job = head
                while job >= 0 {
                    jobs.append(job)
                    job = slots.jobs[Int(job)].next
                }
            }
        }
        return jobs.sorted { slots.jobs[Int($0)].order < slots.jobs[Int($1)].order }
    }

    /// Forgets all queued jobs and all counts; only for putting everything back in anew.
    mutating func reset(_ configuration: LaneConfiguration) {
        self = LaneQueue(configuration)
    }
}
