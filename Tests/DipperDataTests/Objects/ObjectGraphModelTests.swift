import TestSupport
import Testing

@testable import DipperData

@Suite("The object graph against a naive model", .timeLimit(.minutes(2)))
struct ObjectGraphModelTests {
    #if DEBUG
        private static let operations = workload(1_000)
    #else
        private static let operations = workload(25_000)
    #endif

    @Test("the invariants hold over random operations", arguments: [0, 1, 2, 3])
    func randomOperations(run: Int) {
        var walk = ObjectWalk(run)
        for _ in 0..<Self.operations {
            walk.step()
            if walk.hasFailed { return }
        }
        walk.drain()
        #expect(walk.waiting.isEmpty, "requests that never ended: \(walk.waiting.keys)")
        #expect(walk.isGraphEmpty, "work is left without requests")
    }
}

/// Objects that are texts: the bytes are a text, and each step appends its letter.
private enum TextKind: ObjectKind {
    struct Origin: ObjectOrigin {
        var key: String
        /// Distinguishes requests that ask for the bytes in different ways.
        var manner = 0
        var mayRefetch = true
        var renewed: Self { self }
        var storing = ObjectStoring.background
    }

    struct Step: ObjectStep {
        let letter: Character
        /// Upper-case letters fold into the first step.
        func folds(into first: Step) -> Bool { letter.isUppercase }
        /// Digits are steps whose objects are written to disk.
        var isStored: Bool { letter.isNumber }
    }

    typealias Version = Int
    typealias Bytes = String
    typealias Object = String
    typealias Waiter = Int
    typealias Hold = String
}

extension [TextKind.Step] {
    fileprivate init(letters: String) { self = letters.map { TextKind.Step(letter: $0) } }
    fileprivate var letters: String { String(map(\.letter)) }
}

/// Drives a graph at random, plays the tiers, the network and the maker, and checks what the graph promises.
private struct ObjectWalk {
    typealias Graph = ObjectGraph<TextKind>

    /// A request: what it asked for, and the number of removals of the key before.
    struct Request {
        let key: String
        let path: String
        let removals: Int
        let id: ObjectRequestID
    }

    /// A version of the bytes of a key, the number of removals before the work for it began, and whether the bytes
    /// cannot be decoded.
    struct Version {
        let key: String
        let removals: Int
        let isBroken: Bool
    }

    /// Work that the driver would carry out.
    enum Work {
        case search(ObjectSearchID, TextKind.Origin, String, versions: [Int], removals: Int)
        case fetch(ObjectFetchID, TextKind.Origin, removals: Int)
        case node(ObjectNodeID, object: String, version: Int)
        case write(ObjectWriteID, name: String)
    }

    private var graph = Graph()
    private var random: SeededRandom
    private let run: Int
    private(set) var hasFailed = false
    private(set) var waiting: [Int: Request] = [:]
    private var nextWaiter = 0
    private var works: [ObjectWork: (work: Work, want: ObjectWant)] = [:]
    private var versions: [Int: Version] = [:]
    private var removals: [String: Int] = [:]
    /// The objects that the tiers keep, by key and path.
    private var kept: [String: (object: String, version: Int)] = [:]
    private var isDraining = false

    init(_ run: Int) {
        self.run = run
        random = SeededRandom(UInt64(run))
    }

    var isGraphEmpty: Bool {
        graph.requests.isEmpty && graph.trees.isEmpty && graph.nodes.isEmpty && graph.members.isEmpty
            && graph.writes.isEmpty && graph.lines.isEmpty && graph.keeps.isEmpty && works.isEmpty
    }

    private static let paths = ["a", "ab", "abc", "abd", "aB", "aBc", "x", "xb", "a1", "a1b2"]

    mutating func step() {
        let key = "k\(random.below(4))"
        let path = Self.paths[random.below(Self.paths.count)]
        switch random.below(24) {
        case 0...6: if waiting.count < 40 { ask(key, path) }
        case 7...15: answer()
        case 16, 17: if let id = someRequest { event { $0.cancel(id, into: &$1) } }
        case 18, 19:
            let want = someWant()
            if let id = someRequest { event { $0.change(id, to: want, into: &$1) } }
        case 20:
            let tiers: CacheTiers = random.below(2) == 0 ? .all : .memory
            forget(key)
            event { $0.remove(key, from: tiers, into: &$1) }
        case 21: kept[key + " " + path] = nil
        case 22: if random.below(8) == 0 { add(key) }
        case 23:
            let tiers: CacheTiers = [.all, .memory, .disk][random.below(3)]
            if tiers.contains(.memory) { kept[key + " " + path] = nil }
            event { $0.remove(Graph.Path(letters: path), of: key, from: tiers, into: &$1) }
        default: break
        }
    }

    /// Lets everything end.
    mutating func drain() {
        isDraining = true
        for _ in 0..<10_000 where !works.isEmpty && !hasFailed { answer() }
    }

    // MARK: Events

    private var someRequest: ObjectRequestID? {
        mutating get {
            waiting.isEmpty ? nil : waiting[waiting.keys.sorted()[random.below(waiting.count)]]?.id
        }
    }

    private mutating func someWant() -> ObjectWant {
        ObjectWant(random.below(2) == 0 ? .fast : .slow, Priority(Double(random.below(4)) / 4))
    }

    private mutating func ask(_ key: String, _ path: String) {
        nextWaiter += 1
        let storing = ObjectStoring(rawValue: random.below(4)) ?? .never
        let origin = TextKind.Origin(
            key: key, manner: random.below(2), mayRefetch: random.below(3) > 0, storing: storing)
        let (want, looks) = (someWant(), random.below(4) > 0)
        var actions: [Graph.Action] = []
        let id = graph.ask(nextWaiter, origin, Graph.Path(letters: path), want, looks: looks, into: &actions)
        waiting[nextWaiter] = Request(key: key, path: path, removals: removals[key, default: 0], id: id)
        follow(actions)
    }

    private mutating func forget(_ key: String) {
        removals[key, default: 0] += 1
        for name in kept.keys where name.hasPrefix(key + " ") { kept[name] = nil }
    }

    private mutating func add(_ key: String) {
        forget(key)
        let version = newVersion(key, removals: removals[key, default: 0], mayBreak: false)
        kept[key + " a"] = ("v\(version)a", version)
        event {
            $0.add(
                "v\(version)a", version, at: Graph.Path(letters: "a"), for: TextKind.Origin(key: key), into: &$1)
        }
    }

    private mutating func newVersion(_ key: String, removals: Int, mayBreak: Bool) -> Int {
        let number = versions.count
        versions[number] = Version(key: key, removals: removals, isBroken: mayBreak && random.below(4) == 0)
        return number
    }

    /// Answers some work that is under way.
    private mutating func answer() {
        let all = works.keys.sorted { Self.number($0) < Self.number($1) }
        guard !all.isEmpty else { return }
        let name = all[random.below(all.count)]
        guard let (work, _) = works[name] else { return }
        // The driver asks before it writes, and the write goes on for a while.
        if case .write(let id, _) = work, random.below(2) == 0, graph.mayWrite(id), !isDraining { return }
        works[name] = nil
        switch work {
        case .search(let id, let origin, let path, let present, let removals):
            let found = look(origin.key, path, present, removals)
            event { $0.lookedUp(id, found, into: &$1) }
        case .fetch(let id, _, _) where random.below(6) == 0 && !isDraining:
            event { $0.fetchFailed(id, .timedOut, into: &$1) }
        case .fetch(let id, let origin, let removals): fetched(id, origin, removals)
        case .node(let id, let object, let version):
            let isBroken = versions[version]?.isBroken == true || random.below(12) == 0
            if isBroken || random.below(12) == 0 {
                event { $0.makingFailed(id, .undecodable, isBroken: isBroken, into: &$1) }
            } else {
                event { $0.made(id, object, into: &$1) }
            }
        case .write(let id, _):
            let result: ObjectWriteEnd = random.below(4) == 0 ? .failed : .stored
            event { $0.written(id, result, into: &$1) }
        }
    }

    private mutating func fetched(_ id: ObjectFetchID, _ origin: TextKind.Origin, _ removals: Int) {
        // Fetches that began between the same removals may bring the same version.
        let same = versions.filter { $0.value.key == origin.key && $0.value.removals == removals }.keys.max()
        let old = random.below(2) == 0 ? same : nil
        let version = old ?? newVersion(origin.key, removals: removals, mayBreak: true)
        let (isStored, isNewest) = (random.below(2) == 0, random.below(8) == 0)
        var present: [Graph.Path: String] = [:]
        let paths = graph.paths(of: id).map(\.letters)
        if random.below(4) == 0, let path = paths.min() { present[Graph.Path(letters: path)] = "v\(version)\(path)" }
        event { [present] in
            $0.fetched(id, "v\(version)", version, isStored: isStored, isNewest: isNewest, present: present, into: &$1)
        }
    }

    private mutating func look(_ key: String, _ path: String, _ present: [Int], _ begun: Int) -> Graph.Found {
        if begun == removals[key, default: 0], let (object, version) = kept[key + " " + path] {
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
            works[.search(id)] = (.search(id, origin, path.letters, versions: versions, removals: begun), want)
        case .fetch(let id, let origin, let want):
            works[.fetch(id)] = (.fetch(id, origin, removals: removals[origin.key, default: 0]), want)
        case .make(let id, let version, _, _, let steps, let material, let want):
            expect(works[.node(id)] == nil, "a node is made once")
            let object =
                switch material {
                case .bytes(let start), .object(let start): start + steps.letters
                case .stored(let stored), .earlier(let stored, _): stored
                }
            works[.node(id)] = (.node(id, object: object, version: version), want)
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
            kept[version.key + " " + keeping.path.letters] = (keeping.object, keeping.version)
        case .write(let id, let keeping, let want):
            let name = (versions[keeping.version]?.key ?? "?") + " " + keeping.path.letters
            let isWriting = works.values.contains { if case .write(_, name) = $0.work { true } else { false } }
            expect(!isWriting, "two writes of \(name) at a time")
            works[.write(id)] = (.write(id, name: name), want ?? ObjectWant(.slow))
        case .deliver(let waiters, let result): for waiter in waiters { take(result, for: waiter) }
        case .tell, .discard, .release, .purge, .call, .decide, .choose, .listen, .show: break
        }
    }

    private mutating func take(_ result: Result<String, DipperError>, for waiter: Int) {
        guard let request = waiting.removeValue(forKey: waiter) else { return expect(false, "\(waiter) ended twice") }
        guard case .success(let object) = result else { return }
        let digits = object.dropFirst().prefix { $0.isNumber }
        guard let version = Int(digits).flatMap({ versions[$0] }) else { return expect(false, "no version") }
        let isAskedFor = object.dropFirst(1 + digits.count) == request.path && version.key == request.key
        expect(isAskedFor, "\(object) for \(request)")
        expect(version.removals >= request.removals, "\(object) began before a removal that \(request) came after")
    }

    // MARK: Invariants

    /// Each request waits for work, and work is as urgent as the requests that wait for it and for what is made of it.
    /// Work that no request waits for goes on only while a search may lead a request to it.
    private mutating func check() {
        expect(Set(waiting.values.map(\.id)) == Set(graph.requests.keys), "the requests there are")
        var wants: [ObjectWork: [ObjectWant]] = [:]
        for request in graph.requests.values {
            expect(request.stage != nil, "a request waits for nothing")
            var next = request.stage
            while let work = next {
                wants[work, default: []].append(request.want)
                if case .node(let node) = work {
                    next = graph.nodes[node]?.parent.map { .node($0) }
                } else {
                    next = nil
                }
            }
        }
        let maySearch = !graph.searches.isEmpty
        for (work, entry) in works {
            if case .write = work, wants[work] == nil { continue }
            guard let below = wants[work] else {
                expect(maySearch, "work without requests: \(work)")
                continue
            }
            let queue: FetchQueue = below.contains { $0.queue == .fast } ? .fast : .slow
            let level = below.map(\.level).max() ?? 0
            expect(entry.want.queue == queue || (maySearch && queue == .slow), "the queue of \(work)")
            expect(entry.want.level == level || (maySearch && entry.want.level > level), "the priority of \(work)")
        }
        for (id, node) in graph.nodes {
            let isMaking = if case .making = node.phase { true } else { false }
            expect((works[.node(id)] != nil) == isMaking, "a node is made if, and only if, it is under way")
        }
    }

    private mutating func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        guard !condition, !hasFailed else { return }
        hasFailed = true
        Issue.record("run \(run): \(message())")
    }
}
