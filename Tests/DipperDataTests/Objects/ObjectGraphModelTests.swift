import TestSupport
import Testing

@testable import DipperData

@Suite("The object graph against a naive model", .timeLimit(.minutes(5)))
struct ObjectGraphModelTests {
    /// Operations of each of the four walks. A build with optimization does a million in all.
    #if DEBUG
        private static let operations = workload(5_000)
    #else
        private static let operations = workload(250_000)
    #endif

    @Test("the invariants hold over random operations", arguments: 0..<4)
    func randomOperations(run: Int) async {
        let seed = UInt64.random(in: .min ... .max)
        print("object graph model: run \(run), seed \(seed)")
        var walk = ObjectWalk(seed: seed)
        for step in 0..<Self.operations {
            walk.step()
            if step % 256 == 0 { await Task.yield() }
            if walk.hasFailed { return }
        }
        walk.drain()
        #expect(walk.waiting.isEmpty, "seed \(seed): requests that never ended: \(walk.waiting.keys)")
        #expect(walk.isGraphEmpty, "seed \(seed): work is left without requests")
    }
}

/// Drives a graph at random, plays the tiers, the network and the maker, and checks what the graph promises.
private struct ObjectWalk {
    typealias Graph = ObjectGraph<TextKind>

    /// A request, as the naive model knows it.
    struct Request {
        let key: String
        let path: String
        /// The number of removals of the key before the request was made.
        let removals: Int
    }

    /// A version of the bytes of a key.
    struct Version {
        let key: String
        /// The number of removals of the key before the work for it began.
        let removals: Int
        /// Whether the bytes cannot be decoded.
        let isBroken: Bool
    }

    /// Work that the driver would carry out.
    enum Work {
        case search(ObjectSearchID, TextKind.Origin, String, versions: [Int], removals: Int)
        case fetch(ObjectFetchID, TextKind.Origin, removals: Int)
        case node(ObjectNodeID, object: String, version: Int)
        case write(ObjectWriteID, name: String)
    }

    var graph = Graph()
    var random: SplitMix
    let seed: UInt64
    var hasFailed = false
    var waiting: [Int: (request: Request, id: ObjectRequestID)] = [:]
    var nextWaiter = 0
    var works: [ObjectWork: (work: Work, want: ObjectWant)] = [:]
    var versions: [Int: Version] = [:]
    var removals: [String: Int] = [:]
    /// The objects that the tiers keep, by key and path.
    var kept: [String: (object: String, version: Int)] = [:]
    var isDraining = false
    /// The keys of which one object was removed while there was work, which later requests do not join.
    var loosened: Set<String> = []

    init(seed: UInt64) {
        self.seed = seed
        random = SplitMix(state: seed)
    }

    var isGraphEmpty: Bool {
        graph.requests.isEmpty && graph.searches.isEmpty && graph.fetches.isEmpty && graph.trees.isEmpty
            && graph.nodes.isEmpty && graph.members.isEmpty && graph.joinableSearches.isEmpty
            && graph.joinableFetches.isEmpty && graph.joinableTrees.isEmpty && graph.writes.isEmpty
            && graph.lines.isEmpty && graph.keeps.isEmpty && graph.aliases.isEmpty && works.isEmpty
    }

    private static let paths = ["a", "ab", "abc", "abd", "aB", "aBc", "x", "xb", "a1", "a1b2"]

    mutating func step() {
        let key = "k\(random.below(4))"
        switch random.below(25) {
        case 0...6: if waiting.count < 40 { ask(key) }
        case 7...15: answer()
        case 16, 17: if let id = someRequest { event { $0.cancel(id, into: &$1) } }
        case 18, 19:
            let want = someWant()
            if let id = someRequest { event { $0.change(id, to: want, into: &$1) } }
        case 20: remove(key, random.below(2) == 0 ? .all : .memory)
        case 23: removeOne(key)
        case 21: kept[key + " " + Self.paths[random.below(Self.paths.count)]] = nil
        case 22: if random.below(8) == 0 { add(key) }
        default: tell()
        }
    }

    mutating func drain() {
        isDraining = true
        var rounds = 0
        while !works.isEmpty, rounds < 10_000, !hasFailed {
            rounds += 1
            answer()
        }
    }

    // MARK: Events

    private var someRequest: ObjectRequestID? {
        mutating get {
            guard !waiting.isEmpty else { return nil }
            let waiter = waiting.keys.sorted()[random.below(waiting.count)]
            return waiting[waiter]?.id
        }
    }

    private mutating func someWant() -> ObjectWant {
        let queue: FetchQueue = random.below(2) == 0 ? .fast : .slow
        return ObjectWant(queue, Priority(Double(random.below(4)) / 4))
    }

    private mutating func ask(_ key: String) {
        nextWaiter += 1
        let path = Self.paths[random.below(Self.paths.count)]
        let storing = ObjectStoring(rawValue: random.below(4)) ?? .never
        let origin = TextKind.Origin(
            key: key, manner: random.below(2), mayRefetch: random.below(3) > 0, storing: storing)
        let request = Request(key: key, path: path, removals: removals[key, default: 0])
        let (want, looks) = (someWant(), random.below(4) > 0)
        var actions: [Graph.Action] = []
        let id = graph.ask(
            nextWaiter, origin, Graph.Path(letters: path), want, looks: looks, into: &actions)
        waiting[nextWaiter] = (request: request, id: id)
        follow(actions)
    }

    private mutating func remove(_ key: String, _ tiers: CacheTiers) {
        removals[key, default: 0] += 1
        for name in kept.keys where name.hasPrefix(key + " ") { kept[name] = nil }
        event { $0.remove(key, from: tiers, into: &$1) }
    }

    private mutating func removeOne(_ key: String) {
        let path = Self.paths[random.below(Self.paths.count)]
        let tiers: [CacheTiers] = [.all, .memory, .disk]
        let from = tiers[random.below(3)]
        if from.contains(.memory) { kept[key + " " + path] = nil }
        loosened.insert(key)
        event { $0.remove(Graph.Path(letters: path), of: key, from: from, into: &$1) }
    }

    private mutating func add(_ key: String) {
        removals[key, default: 0] += 1
        for name in kept.keys where name.hasPrefix(key + " ") { kept[name] = nil }
        let version = newVersion(key, removals: removals[key, default: 0], mayBreak: false)
        var actions: [Graph.Action] = []
        let object = "v\(version)a"
        graph.add(
            object, version, at: Graph.Path(letters: "a"), for: TextKind.Origin(key: key), into: &actions)
        kept[key + " a"] = (object: object, version: version)
        follow(actions)
    }

    private mutating func newVersion(_ key: String, removals: Int, mayBreak: Bool) -> Int {
        let number = versions.count
        versions[number] = Version(key: key, removals: removals, isBroken: mayBreak && random.below(4) == 0)
        return number
    }

    private mutating func tell() {
        let fetches = graph.fetches.keys.sorted { $0.number < $1.number }
        guard !fetches.isEmpty else { return }
        let id = fetches[random.below(fetches.count)]
        let news: FetchNews = random.below(2) == 0 ? .failure(.timedOut) : .retry
        event { $0.told(id, news, into: &$1) }
    }

    /// Answers some work that is under way.
    private mutating func answer() {
        let all = works.keys.sorted { Self.number($0) < Self.number($1) }
        guard !all.isEmpty else { return }
        let name = all[random.below(all.count)]
        guard let (work, _) = works[name] else { return }
        switch work {
        case .search(let id, let origin, let path, let present, let removals):
            works[name] = nil
            let found = look(origin.key, path, present, removals)
            event { $0.lookedUp(id, found, into: &$1) }
        case .fetch(let id, let origin, let removals):
            works[name] = nil
            if random.below(6) == 0, !isDraining {
                event { $0.fetchFailed(id, .timedOut, into: &$1) }
            } else {
                // Fetches that began between the same removals may bring the same version.
                let same = versions.keys.sorted().last {
                    versions[$0]?.key == origin.key && versions[$0]?.removals == removals
                }
                let isOld = random.below(2) == 0
                let old = isOld ? same : nil
                let version = old ?? newVersion(origin.key, removals: removals, mayBreak: true)
                let (isStored, isNewest) = (random.below(2) == 0, random.below(8) == 0)
                var present: [Graph.Path: String] = [:]
                if random.below(4) == 0, let path = graph.paths(of: id).first {
                    present[path] = "v\(version)\(path.letters)"
                }
                event { [present] in
                    $0.fetched(
                        id, "v\(version)", version, isStored: isStored, isNewest: isNewest, present: present,
                        into: &$1)
                }
            }
        case .node(let id, let object, let version):
            works[name] = nil
            if versions[version]?.isBroken == true || random.below(12) == 0 {
                event { $0.makingFailed(id, .undecodable, isBroken: true, into: &$1) }
            } else if random.below(12) == 0 {
                event { $0.makingFailed(id, .processingFailed, isBroken: false, into: &$1) }
            } else {
                event { $0.made(id, object, into: &$1) }
            }
        case .write(let id, _):
            // The driver asks, and the write goes on for a while.
            if random.below(2) == 0, graph.mayWrite(id), !isDraining { return }
            works[name] = nil
            let result: ObjectWriteEnd = random.below(4) == 0 ? .failed : .stored
            event { $0.written(id, result, into: &$1) }
        }
    }

    private mutating func look(_ key: String, _ path: String, _ present: [Int], _ begun: Int) -> Graph.Found {
        let isCurrent = begun == removals[key, default: 0]
        if isCurrent, let (object, version) = kept[key + " " + path] {
            return random.below(3) == 0 ? .stored(object, version) : .object(object, version)
        }
        if let version = present.last, random.below(2) == 0 { return .underWay(version) }
        return .nothing
    }

    private static func number(_ work: ObjectWork) -> UInt64 {
        switch work {
        case .search(let id): id.number
        case .fetch(let id): id.number
        case .node(let id): id.number
        case .write(let id): id.number
        }
    }

    // MARK: Following the actions

    private mutating func event(_ body: (inout Graph, inout [Graph.Action]) -> Void) {
        var actions: [Graph.Action] = []
        body(&graph, &actions)
        follow(actions)
    }

    private mutating func follow(_ actions: [Graph.Action]) {
        for action in actions { follow(action) }
        check()
    }

    private mutating func follow(_ action: Graph.Action) {
        switch action {
        case .lookUp(let id, let origin, let path, let versions, let want):
            let begun = removals[origin.key, default: 0]
            let work = Work.search(id, origin, path.letters, versions: versions, removals: begun)
            works[.search(id)] = (work: work, want: want)
        case .fetch(let id, let origin, let want):
            let begun = removals[origin.key, default: 0]
            works[.fetch(id)] = (work: Work.fetch(id, origin, removals: begun), want: want)
        case .make(let id, let version, _, _, let steps, let material, let want):
            expect(works[.node(id)] == nil, "a node is made once")
            let object: String =
                switch material {
                case .bytes(let bytes): bytes + steps.letters
                case .object(let parent): parent + steps.letters
                case .stored(let stored), .earlier(let stored, _): stored
                }
            works[.node(id)] = (work: Work.node(id, object: object, version: version), want: want)
        case .move(let work, let want):
            expect(works[work] != nil, "moved work that is not under way: \(work)")
            works[work]?.want = want
        case .drop(let work):
            expect(works[work] != nil, "dropped work that is not under way: \(work)")
            works[work] = nil
        case .keep(let keeping):
            guard graph.mayKeep(keeping.id), let version = versions[keeping.version] else { return }
            graph.kept(keeping.id)
            let isCurrent = version.removals == removals[version.key, default: 0]
            expect(isCurrent, "\(keeping.object) is kept although its key was removed")
            expect(keeping.object == "v\(keeping.version)\(keeping.path.letters)", "the object of a path")
            kept[version.key + " " + keeping.path.letters] = (object: keeping.object, version: keeping.version)
        case .write(let id, let keeping, let want):
            let name = (versions[keeping.version]?.key ?? "?") + " " + keeping.path.letters
            let isWriting = works.values.contains { if case .write(_, name) = $0.work { true } else { false } }
            expect(!isWriting, "two writes of \(name) at a time")
            works[.write(id)] = (work: Work.write(id, name: name), want: want ?? ObjectWant(.slow))
        case .deliver(let waiters, let result):
            for waiter in waiters { take(result, for: waiter) }
        case .tell(let waiters, _):
            for waiter in waiters { expect(waiting[waiter] != nil, "news after the end of \(waiter)") }
        case .discard, .release, .purge, .call, .decide, .choose, .listen, .show: break
        }
    }

    private mutating func take(_ result: Result<String, DipperError>, for waiter: Int) {
        guard let (request, _) = waiting.removeValue(forKey: waiter) else {
            return expect(false, "\(waiter) ended twice")
        }
        guard case .success(let object) = result else { return }
        let digits = object.dropFirst().prefix { $0.isNumber }
        guard let number = Int(digits), let version = versions[number] else { return expect(false, "no version") }
        expect(object.dropFirst(1 + digits.count) == request.path, "\(object) for \(request)")
        expect(version.key == request.key, "\(object) for \(request)")
        expect(version.removals >= request.removals, "\(object) began before a removal that \(request) came after")
    }

    // MARK: Invariants

    private mutating func check() {
        expect(Set(waiting.values.map(\.id)) == Set(graph.requests.keys), "the requests there are")
        // Each request waits for work, and each piece of work has the urgency of the requests below it.
        var wants: [ObjectWork: [ObjectWant]] = [:]
        for (id, request) in graph.requests {
            guard let stage = request.stage else { return expect(false, "\(id) waits for nothing") }
            var next: ObjectWork? = stage
            while let work = next {
                wants[work, default: []].append(request.want)
                next = nil
                if case .node(let node) = work, let parent = graph.nodes[node]?.parent { next = .node(parent) }
            }
        }
        // What goes on for a request in a search counts with the urgency that it had.
        for (work, told) in idleWork() {
            var next: ObjectWork? = work
            while let work = next {
                wants[work, default: []].append(told)
                next = nil
                if case .node(let node) = work, let parent = graph.nodes[node]?.parent { next = .node(parent) }
            }
        }
        for (work, entry) in works {
            // A write goes on without requests.
            if case .write = work, wants[work] == nil { continue }
            guard let below = wants[work] else { return expect(false, "work without requests: \(work)") }
            let isFast = below.contains { $0.queue == .fast }
            expect(entry.want.queue == (isFast ? .fast : .slow), "the queue of \(work)")
            expect(entry.want.level == below.map(\.level).max(), "the priority of \(work)")
        }
        let all = graph.searches.count + graph.fetches.count + graph.nodes.count
        let awaited = wants.keys.count { if case .write = $0 { false } else { true } }
        expect(awaited == all, "work that no request waits for")
        for (id, node) in graph.nodes {
            let isUnderWay = works[.node(id)] != nil
            if case .making = node.phase {
                expect(isUnderWay, "a node is being made by nobody")
            } else {
                expect(!isUnderWay, "a node that waits or is ready is being made")
            }
            if case .waiting = node.phase { expect(node.parent != nil, "a node waits for nothing") }
        }
        checkSharing()
    }

    /// Returns the work that no request waits for, but a request in a search may come to, and its urgency.
    private func idleWork() -> [(ObjectWork, ObjectWant)] {
        let searched = Set(graph.searches.values.map(\.name.origin.key))
        let fetches = graph.fetches.filter { $0.value.crowd.isEmpty && searched.contains($0.value.origin.key) }
        let nodes = graph.nodes.filter { _, node in
            node.crowd.isEmpty && graph.trees[node.tree].map { searched.contains($0.name.key) } == true
        }
        return fetches.compactMap { id, fetch in fetch.crowd.told.map { (.fetch(id), $0) } }
            + nodes.compactMap { id, node in node.crowd.told.map { (.node(id), $0) } }
    }

    private mutating func checkSharing() {
        loosened = loosened.filter { graph.members[$0] != nil }
        let fetches = graph.fetches.values.filter { !$0.standing.isDetached && !loosened.contains($0.origin.key) }
        expect(Set(fetches.map(\.origin)).count == fetches.count, "one fetch for an origin")
        let searches = graph.searches.values.filter {
            !$0.standing.isDetached && !loosened.contains($0.name.origin.key)
        }
        expect(Set(searches.map(\.name)).count == searches.count, "one search for an origin and a path")
        for tree in graph.trees.values {
            // Of an object that was removed while it was being made, there may be another one.
            let paths = tree.nodes.compactMap { graph.nodes[$0] }.filter(\.revoked.isEmpty).map(\.path)
            expect(Set(paths).count == paths.count, "one node for a path")
        }
    }

    private mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        guard !condition, !hasFailed else { return }
        hasFailed = true
        Issue.record("seed \(seed): \(message())")
    }
}
