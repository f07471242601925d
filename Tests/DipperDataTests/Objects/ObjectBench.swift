@testable import DipperData

/// Objects that are texts: the bytes are a text, and each step appends its letter.
enum TextKind: ObjectKind {
    struct Origin: ObjectOrigin {
        var key: String
        /// Distinguishes requests that ask for the bytes in different ways.
        var manner = 0
        var mayRefetch = true
        var renewed: Self { self }
        var storing = ObjectStoring.background
        var isDecided = true
        var alias: String?

        /// The smaller source of "k" is "small".
        func decided(isThere: Bool) -> Origin {
            var origin = self
            origin.isDecided = true
            if !isThere {
                origin.alias = key
                origin.key = "small"
            }
            return origin
        }
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

    /// The stored form of an object is its text, which begins with the version: "v1a".
    static func isForm(_ stored: String, of version: Int) -> Bool { stored.hasPrefix("v\(version)") }
}

extension [TextKind.Step] {
    init(letters: String) { self = letters.map { TextKind.Step(letter: $0) } }
    var letters: String { String(map(\.letter)) }
}

/// A graph, and a log of its actions as lines of text.
struct ObjectBench {
    typealias Graph = ObjectGraph<TextKind>

    var graph = Graph()
    /// The lines since the last call of ``takeLog()``.
    private var log: [String] = []
    private var searches: [String: ObjectSearchID] = [:]
    private var fetches: [String: ObjectFetchID] = [:]
    private var nodes: [String: ObjectNodeID] = [:]
    private var writes: [String: ObjectWriteID] = [:]
    private var requests: [Int: ObjectRequestID] = [:]
    private var names: [ObjectWork: String] = [:]

    /// Returns the actions since the last call, one line each.
    mutating func takeLog() -> [String] { exchange(&log, with: []) }

    // MARK: Events

    mutating func ask(
        _ waiter: Int, _ path: String, _ queue: FetchQueue = .fast, of key: String = "k", manner: Int = 0,
        mayRefetch: Bool = true, storing: ObjectStoring = .background, looks: Bool = true,
        isDecided: Bool = true, interest: FetchInterest = []
    ) {
        let origin = TextKind.Origin(
            key: key, manner: manner, mayRefetch: mayRefetch, storing: storing, isDecided: isDecided)
        var actions: [Graph.Action] = []
        requests[waiter] = graph.ask(
            waiter, origin, Graph.Path(letters: path), ObjectWant(queue), looks: looks, interest: interest,
            into: &actions)
        note(actions)
    }

    mutating func found(_ path: String, _ found: Graph.Found) {
        guard let id = searches.removeValue(forKey: path) else { return log.append("no search \(path)") }
        event { $0.lookedUp(id, found, into: &$1) }
    }

    mutating func decided(isThere: Bool) {
        guard let id = searches.removeValue(forKey: "?") else { return log.append("no decision") }
        event { $0.decided(id, isThere: isThere, into: &$1) }
    }

    /// Answers look-ups with nothing until the bytes are asked for.
    mutating func miss(_ paths: String...) {
        for path in paths { found(path, .nothing) }
    }

    mutating func fetched(_ version: Int, isStored: Bool = false) { fetched("k", version, isStored: isStored) }

    mutating func fetched(_ origin: String, _ version: Int, isStored: Bool = false) {
        guard let id = fetches.removeValue(forKey: origin) else { return log.append("no fetch \(origin)") }
        event { $0.fetched(id, "v\(version)", version, isStored: isStored, into: &$1) }
    }

    mutating func fetchFailed(_ origin: String, _ error: DipperError) {
        guard let id = fetches.removeValue(forKey: origin) else { return log.append("no fetch \(origin)") }
        event { $0.fetchFailed(id, error, into: &$1) }
    }

    mutating func told(_ news: FetchNews) {
        guard let id = fetches["k"] else { return log.append("no fetch") }
        event { $0.told(id, news, into: &$1) }
    }

    mutating func made(_ object: String) {
        guard let id = nodes.removeValue(forKey: object) else { return log.append("no node \(object)") }
        event { $0.made(id, object, into: &$1) }
    }

    mutating func failed(_ object: String, isBroken: Bool = true) {
        guard let id = nodes.removeValue(forKey: object) else { return log.append("no node \(object)") }
        event { $0.makingFailed(id, .undecodable, isBroken: isBroken, into: &$1) }
    }

    /// Asks whether an object may be written, as the driver does before it begins.
    mutating func mayWrite(_ object: String) -> Bool { writes[object].map { graph.mayWrite($0) } ?? false }

    mutating func written(_ object: String, _ result: ObjectWriteEnd = .stored) {
        guard let id = writes.removeValue(forKey: object) else { return log.append("no write \(object)") }
        event { $0.written(id, result, into: &$1) }
    }

    mutating func cancel(_ waiter: Int) {
        guard let id = requests[waiter] else { return }
        event { $0.cancel(id, into: &$1) }
    }

    mutating func change(_ waiter: Int, to want: ObjectWant) {
        guard let id = requests[waiter] else { return }
        event { $0.change(id, to: want, into: &$1) }
    }

    mutating func remove(_ key: String = "k", from tiers: CacheTiers = .all) {
        event { $0.remove(key, from: tiers, into: &$1) }
    }

    mutating func event(_ body: (inout Graph, inout [Graph.Action]) -> Void) {
        var actions: [Graph.Action] = []
        body(&graph, &actions)
        note(actions)
    }

    // MARK: Actions

    private mutating func note(_ actions: [Graph.Action]) {
        for action in actions { if let line = line(action) { log.append(line) } }
    }

    private mutating func line(_ action: Graph.Action) -> String? {
        switch action {
        case .lookUp(let id, let origin, let path, let versions, let want):
            searches[path.letters] = id
            names[.search(id)] = "look-up"
            let present = versions.isEmpty ? "" : " beside \(versions)"
            return "look \(origin.key) \(path.letters) \(want.queue)\(present)"
        case .fetch(let id, let origin, let want):
            let name = origin.manner == 0 ? origin.key : "\(origin.key)\(origin.manner)"
            fetches[name] = id
            names[.fetch(id)] = "fetch \(name)"
            return "fetch \(name) \(want.queue)"
        case .make(let id, _, _, _, let steps, let material, let want):
            let (start, kind) = Self.text(material)
            let object = kind == "stored" ? start : start + steps.letters
            nodes[object] = id
            names[.node(id)] = "make \(object)"
            return "make \(object) by \(steps.letters) from \(kind) \(want.queue)"
        case .move(let work, let want): return "move \(names[work] ?? "?") \(want.queue) \(want.level)"
        case .drop(let work): return "drop \(names[work] ?? "?")"
        case .decide(let id, let origin, let want):
            searches["?"] = id
            names[.search(id)] = "decision"
            return "decide \(origin.key) \(want.queue)"
        case .choose(let waiters, let origin): return "\(origin.key) for \(waiters)"
        case .listen(let id, let interest):
            let news = interest.contains(.previews) ? "previews" : "progress"
            return "listen to \(names[.fetch(id)] ?? "?") for \(news)"
        case .show(let waiters, let preview): return "show \(preview) to \(waiters)"
        case .keep(let keeping):
            guard graph.mayKeep(keeping.id) else { return nil }
            graph.kept(keeping.id)
            return "keep \(keeping.object)"
        case .write(let id, let keeping, let want):
            writes[keeping.object] = id
            names[.write(id)] = "write \(keeping.object)"
            return "write \(keeping.object)" + (want.map { " \($0.queue)" } ?? "")
        case .call(let bodies):
            for body in bodies { body() }
            return "call \(bodies.count)"
        case .discard(let origin, let path, _): return "discard \(origin.key) \(path.letters)"
        case .purge(let origin, _): return "purge \(origin.key)"
        case .deliver(let waiters, .success(let object)): return "deliver \(object) to \(waiters)"
        case .deliver(let waiters, .failure(let error)): return "\(error.shortDescription) to \(waiters)"
        case .tell(let waiters, .failure(let error)): return "tell \(error.shortDescription) to \(waiters)"
        case .tell(let waiters, .retry): return "tell retry to \(waiters)"
        case .tell(let waiters, .progress(let progress)): return "tell \(progress.received) to \(waiters)"
        case .tell(let waiters, .ended(let attempts)): return "tell \(attempts) attempts to \(waiters)"
        case .tell(let waiters, .moved(let queue)): return "tell \(queue) to \(waiters)"
        case .release(.hold(let hold)): return "release \(hold)"
        case .release(.request(let request)): return request.hold.map { "release \($0)" }
        case .release: return nil
        }
    }

    private static func text(_ material: Graph.Material) -> (text: String, kind: String) {
        switch material {
        case .bytes(let bytes): (bytes, "bytes")
        case .object(let object): (object, "parent")
        case .stored(let bytes): (bytes, "stored")
        case .earlier(let form, _): (form, "stored")
        }
    }

    /// Whether nothing is left of the work.
    var isEmpty: Bool {
        graph.requests.isEmpty && graph.searches.isEmpty && graph.fetches.isEmpty && graph.trees.isEmpty
            && graph.nodes.isEmpty && graph.members.isEmpty && graph.joinableSearches.isEmpty
            && graph.joinableFetches.isEmpty && graph.joinableTrees.isEmpty && graph.writes.isEmpty
            && graph.lines.isEmpty && graph.keeps.isEmpty && graph.aliases.isEmpty
    }
}
