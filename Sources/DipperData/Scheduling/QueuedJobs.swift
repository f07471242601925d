import HeapModule

/// The place of a host in ``QueuedJobs``.
struct GroupIndex: SlotIndex {
    let raw: UInt32
}

typealias GroupID = SlotID<GroupIndex>

/// The queued jobs of one queue, by priority and then by order of arrival, and the numbers of running jobs per host.
///
/// Jobs are linked in one list for each of the 101 priority levels. With a limit per host each host has lists of its
/// own, and a heap of the hosts that may start a job tells whose job is next.
struct QueuedJobs {
    /// The jobs of one host, or of all hosts if there is no limit per host.
    private struct Group: SlotElement {
        /// A list for each level.
        var lists: [SlotList<JobIndex>] = []
        /// A bit for each level that has a job.
        var levels: UInt128 = 0
        var running = 0
        /// The host; `nil` for the group of all hosts.
        var host: String?

        init() {}

        init(host: String?) {
            self.host = host
            lists = Array(repeating: SlotList(), count: 101)
        }

        // mutant Queue: ` nil : 127 - levels.leadingZero` => ` nil : levels.trailingZero`
        var highestLevel: Int? { levels == 0 ? nil : 127 - levels.leadingZeroBitCount }
    }

    /// The next job of a group at the time of noting. The candidate is out of date once the group has another next job.
    private struct Candidate: Comparable {
        let level: UInt8
        /// The order among candidates of equal priority, lowest first, for both orders of the queue.
        let rank: Int64
        let group: GroupID
        let job: JobIndex

        static func < (a: Self, b: Self) -> Bool {
            a.level != b.level ? a.level > b.level : a.rank < b.rank
        }
    }

    private var order: QueueConfiguration.Order
    private var maxPerHost: Int?
    private let leastCapacity: Int
    private(set) var count = 0
    private var groups: SlotTable<GroupIndex, Group>
    private let common: GroupIndex
    private var groupsByHost: [String: GroupID] = [:]
    private var candidates = Heap<Candidate>()
    private var nextOrder: Int64 = 0
    private var firstOrder: Int64 = -1

    init(_ configuration: QueueConfiguration, leastCapacity: Int) {
        order = configuration.order
        maxPerHost = configuration.maxPerHost
        self.leastCapacity = leastCapacity
        groups = SlotTable(leastCapacity: leastCapacity)
        common = groups.insert(Group(host: nil))
    }

    // MARK: Queued jobs

    /// Adds a job as the latest to arrive, or in front of all its equals.
    mutating func insert<Work: SchedulableWork>(_ job: JobIndex, first: Bool, in jobs: inout Jobs<Work>) {
        let group = join(job, in: &jobs)
        let level = Int(jobs[job].level)
        // In LIFO order jobs are taken from the end, so the latest job is in front already.
        if first, order == .fifo {
            jobs[job].phase = .queued(order: firstOrder)
            firstOrder -= 1
            groups[group].lists[level].prepend(job, in: &jobs)
        } else {
            jobs[job].phase = .queued(order: nextOrder)
            nextOrder += 1
            groups[group].lists[level].append(job, in: &jobs)
        }
        groups[group].levels |= 1 << UInt128(level)
        count += 1
        if next(in: group) == job { noteCandidate(of: group, in: jobs) }
    }

    mutating func remove<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        let group = unlink(job, in: &jobs)
        releaseIfEmpty(group, in: jobs)
    }

    private mutating func unlink<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) -> GroupIndex {
        let group = group(of: job, in: jobs)
        let level = Int(jobs[job].level)
        let wasNext = next(in: group) == job
        groups[group].lists[level].remove(job, in: &jobs)
        if groups[group].lists[level].isEmpty { groups[group].levels &= ~(1 << UInt128(level)) }
        jobs[job].phase = .unplaced
        count -= 1
        if wasNext { noteCandidate(of: group, in: jobs) }
        return group
    }

    /// Returns the job that starts next and leaves it in its place; `nil` if none may start.
    mutating func next<Work>(in jobs: Jobs<Work>) -> JobIndex? {
        guard maxPerHost != nil else { return next(in: common) }
        while let best = candidates.min {
            if let group = groups.index(of: best.group), mayStart(group), next(in: group) == best.job,
                best == candidate(best.job, of: best.group, in: jobs)
            {
                return best.job
            }
            candidates.removeMin()
        }
        return nil
    }

    private func next(in group: GroupIndex) -> JobIndex? {
        guard let level = groups[group].highestLevel else { return nil }
        return order == .fifo ? groups[group].lists[level].first : groups[group].lists[level].last
    }

    /// Returns the queued jobs in the order of their arrival.
    private func all<Work>(in jobs: Jobs<Work>) -> [JobIndex] {
        groups.indices
            .flatMap { groups[$0].lists.flatMap { $0.indices(in: jobs) } }
            .sorted { arrival($0, in: jobs) < arrival($1, in: jobs) }
    }

    private func arrival<Work>(_ job: JobIndex, in jobs: Jobs<Work>) -> Int64 {
        if case .queued(let order) = jobs[job].phase { order } else { 0 }
    }

    // MARK: Running jobs

    /// Removes a job from its list and counts it as running for its host.
    mutating func start<Work>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        groups[group(of: job, in: jobs)].running += 1
        _ = unlink(job, in: &jobs)
    }

    /// Counts a job that is already running.
    mutating func addRunning<Work: SchedulableWork>(_ job: JobIndex, in jobs: inout Jobs<Work>) {
        groups[join(job, in: &jobs)].running += 1
    }

    mutating func removeRunning<Work>(_ job: JobIndex, in jobs: Jobs<Work>) {
        let group = group(of: job, in: jobs)
        groups[group].running -= 1
        noteCandidate(of: group, in: jobs)
        releaseIfEmpty(group, in: jobs)
    }

    // MARK: Groups

    /// Adds a job to the group that counts it.
    private mutating func join<Work: SchedulableWork>(_ job: JobIndex, in jobs: inout Jobs<Work>) -> GroupIndex {
        var group = common
        if maxPerHost != nil {
            let host = jobs[job].work.host
            if let present = groupsByHost[host].flatMap({ groups.index(of: $0) }) {
                group = present
            } else {
                group = groups.insert(Group(host: host))
                groupsByHost[host] = groups.id(of: group)
            }
        }
        jobs[job].group = groups.id(of: group)
        return group
    }

    private func group<Work>(of job: JobIndex, in jobs: Jobs<Work>) -> GroupIndex {
        guard let group = jobs[job].group.flatMap({ groups.index(of: $0) }) else {
            preconditionFailure("a queued or running job has a group")
        }
        return group
    }

    private func mayStart(_ group: GroupIndex) -> Bool {
        guard let maxPerHost else { return true }
        // mutant Queue: `nning < max(1,` => `nning <= max(1,`
        return groups[group].running < max(1, maxPerHost)
    }

    private mutating func releaseIfEmpty<Work>(_ group: GroupIndex, in jobs: Jobs<Work>) {
        guard groups[group].levels == 0, groups[group].running == 0, let host = groups[group].host else { return }
        groupsByHost[host] = nil
        groups.remove(group)
        guard groups.isSparse else { return }
        // The common group was added first and keeps its place. Jobs and candidates refer to groups by their
        // identifiers.
        groups.compact()
        groupsByHost = Dictionary(uniqueKeysWithValues: groupsByHost.map { ($0, $1) })
        refillCandidates(in: jobs)
    }

    // MARK: Candidates

    private func candidate<Work>(_ job: JobIndex, of group: GroupID, in jobs: Jobs<Work>) -> Candidate {
        let arrival = arrival(job, in: jobs)
        return Candidate(
            level: jobs[job].level, rank: order == .fifo ? arrival : -arrival, group: group, job: job)
    }

    private mutating func noteCandidate<Work>(of group: GroupIndex, in jobs: Jobs<Work>) {
        guard maxPerHost != nil, mayStart(group), let job = next(in: group) else { return }
        candidates.insert(candidate(job, of: groups.id(of: group), in: jobs))
        // Candidates that are out of date are dropped when their turn comes. A queue that starts no job drops them
        // here.
        if candidates.count > 2 * groups.count + 64 { refillCandidates(in: jobs) }
    }

    private mutating func refillCandidates<Work>(in jobs: Jobs<Work>) {
        candidates = Heap()
        for group in groups.indices { noteCandidate(of: group, in: jobs) }
    }

    // MARK: Changes

    /// Changes the limits and the order. If the limit per host comes or goes, this goes through the whole queue.
    mutating func configure<Work: SchedulableWork>(
        _ configuration: QueueConfiguration, running: [JobIndex], in jobs: inout Jobs<Work>
    ) {
        let isSameGrouping = (maxPerHost == nil) == (configuration.maxPerHost == nil)
        order = configuration.order
        maxPerHost = configuration.maxPerHost
        if isSameGrouping { return refillCandidates(in: jobs) }
        let queued = all(in: jobs)
        self = QueuedJobs(configuration, leastCapacity: leastCapacity)
        for job in running { addRunning(job, in: &jobs) }
        for job in queued { insert(job, first: false, in: &jobs) }
    }

    /// The numbers of noted candidates, and of hosts that there is storage for; for tests.
    var capacity: (candidates: Int, hosts: Int) { (candidates.count, groups.capacity) }

    /// Updates the lists after jobs have been moved to other places.
    mutating func follow<Work>(_ moves: SlotMoves<JobIndex>, in jobs: Jobs<Work>) {
        for group in groups.indices {
            var levels = groups[group].levels
            while levels != 0 {
                groups[group].lists[levels.trailingZeroBitCount].follow(moves)
                levels &= levels - 1
            }
        }
        refillCandidates(in: jobs)
    }
}
