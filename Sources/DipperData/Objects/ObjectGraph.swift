/// The things made of bytes that are being looked for, fetched and made. A value: no lock, no thread, no clock, no I/O.
///
/// An object is made from bytes in steps, its *path*. One recursion says how: an object is made from its parent, which
/// is the object of the path without its last step; the parent of the first object is the bytes.
///
/// A request takes up to four stages, and is in one of them at a time:
/// 1. a *search* finds out which of two sources is asked for, where the request has a choice, then looks for the object
///    in the tiers, then for the nearest ancestor;
/// 2. a *fetch* brings the bytes, if no ancestor was found;
/// 3. a *node* makes the object. The nodes made from one version of the bytes are a *tree*. A parent is made before its
///    children, once for all of them, and stays at hand as long as children are made from it;
/// 4. a *write* brings the stored form of the object to disk. Only requests that ask for that wait for its end.
///
/// An object that was asked for is kept in memory, and written if its last step has a stored form. An object that is
/// only the parent of others is not kept.
///
/// Events go in as calls of mutating methods, actions come out. Invariants:
/// - Each request gets exactly one ``Action/deliver(_:_:)``, and nothing after it.
/// - At most one fetch is under way for each origin, one search for each origin and path, and one node for each
///   version and path; work that a removal has detached does not count.
/// - Work is under way exactly as long as a request waits for it, itself or through its children. Its urgency is that
///   of its most urgent request; the driver is told each change. A write alone goes on without requests. A fetch, or
///   the making of an object, also goes on while a request for its key is in a search, because it may come to wait
///   for that work.
/// - At most one write is under way for each key and path. Of the writes that wait for it, the latest is carried out.
/// - A request that is made after a removal is not answered by work that began before; such work still answers the
///   requests that wait for it. Its objects are not kept in the tiers of the removal.
/// - Bytes that cannot be decoded stay where they are, and requests that the network may answer fetch them again once.
struct ObjectGraph<Kind: ObjectKind>: Sendable {
    typealias Path = [Kind.Step]
    typealias Key = Kind.Origin.Key

    /// The effect of removals on work that began before them.
    struct Standing: Sendable, Equatable {
        /// Whether later requests must not join the work.
        var isDetached = false
        /// The tiers in which the objects must not be kept.
        var revoked: CacheTiers = []

        mutating func revoke(_ tiers: CacheTiers) {
            isDetached = true
            revoked.formUnion(tiers)
        }
    }

    struct Request: Sendable {
        let waiter: Kind.Waiter
        var origin: Kind.Origin
        let path: Path
        var want: ObjectWant
        /// Whether the tiers may answer.
        let looks: Bool
        /// The news of a fetch that the request asks for.
        var interest: FetchInterest
        /// The work that the request waits for; `nil` only while it goes from one stage to the next.
        var stage: ObjectWork?
        /// The error of the stored bytes, if they are fetched again because of it. It is the request's error if the
        /// network has no answer.
        var refetchedAfter: DipperError?
        /// The stored form of the object that was made of earlier bytes. It serves if the bytes are still the same.
        var earlier: Kind.Bytes?
        /// The tiers from which the object alone was removed.
        var revoked: CacheTiers = []
        /// The hold that the request keeps until its fetch has begun.
        var hold: Kind.Hold?
    }

    struct SearchName: Hashable, Sendable {
        let origin: Kind.Origin
        let path: Path
    }

    struct Search: Sendable {
        let name: SearchName
        /// The number of steps of the path that is looked for now.
        var depth: Int
        var crowd = ObjectCrowd()
        var standing = Standing()
        /// The hold that the search keeps until the fetch that may follow has begun.
        var hold: Kind.Hold?
    }

    struct Fetch: Sendable {
        let origin: Kind.Origin
        var crowd = ObjectCrowd()
        var standing: Standing
        /// The failure of the last attempt, while the fetch waits to try again.
        var failure: DipperError?
        /// The news that the driver has been told to pass on.
        var interest: FetchInterest = []
        /// The latest preview of each path.
        var previews: [Path: Kind.Object] = [:]
    }

    struct TreeName: Hashable, Sendable {
        let key: Key
        let version: Kind.Version
    }

    struct Tree: Sendable {
        let name: TreeName
        var standing: Standing
        /// The bytes; `nil` in a tree that has grown from an object of the tiers.
        var bytes: Kind.Bytes?
        /// Whether the bytes were stored, so that the network may have others.
        var isStored = true
        /// Whether the bytes were asked for anew, so that objects of other versions are out of date as soon as an
        /// object of this one is made.
        var isNewest = false
        /// The nodes that requests can join.
        var index: [Path: ObjectNodeID] = [:]
        /// All nodes.
        var nodes: Set<ObjectNodeID> = []
    }

    struct Node: Sendable {
        let tree: UInt64
        let path: Path
        var phase = Phase.waiting
        var crowd = ObjectCrowd()
        /// The node that this one is, or will be, made from; `nil` if it is made from bytes or from its stored form.
        var parent: ObjectNodeID?
        var children: Set<ObjectNodeID> = []
        /// The tiers from which this object alone was removed.
        var revoked: CacheTiers = []
        /// Whether the driver has been told to make the object.
        var hasBegun = false
    }

    /// The phase of a node.
    enum Phase: Sendable {
        /// The parent is not made yet.
        case waiting
        case making(Source)
        /// The object is made. Children are being made from it.
        case ready(Kind.Object)
    }

    /// The kind of material that a node is being made from.
    enum Source: Sendable {
        case bytes, object, stored
        /// The stored form that was made of earlier bytes, which were the same.
        case earlier
    }

    struct WriteName: Hashable, Sendable {
        let key: Key
        let path: Path
    }

    struct Write: Sendable {
        let name: WriteName
        let keeping: Keeping
        /// The requests that wait for the end of the write.
        var crowd = ObjectCrowd()
        /// Whether the driver has begun to write.
        var hasBegun = false
        /// Whether the driver has done so.
        var hasEnded = false
        /// The tiers from which the object has been removed since.
        var revoked: CacheTiers
        var isRevoked: Bool { revoked.contains(.disk) }
    }

    /// An object that is about to be kept in memory.
    struct Keep: Sendable {
        let key: Key
        let path: Path
        /// The version; `nil` for an object that a caller makes or adds.
        let version: Kind.Version?
    }

    /// The writes of one object: the one that the driver carries out, and the one that follows.
    struct WriteLine: Sendable {
        var first: ObjectWriteID
        var next: ObjectWriteID?
    }

    /// All work on the bytes of one key, joinable or detached.
    struct Members: Sendable {
        var searches: Set<ObjectSearchID> = []
        var fetches: Set<ObjectFetchID> = []
        var trees: Set<UInt64> = []
        var writes: Set<ObjectWriteID> = []
        var keeps: Set<ObjectKeepID> = []
        /// Whether the bytes are to be removed from the tiers when nothing is made of them any more.
        var isToDrop = false
        /// Whether work that no request waits for may be under way, until the last search ends.
        var hasIdle = false
        var isEmpty: Bool {
            searches.isEmpty && fetches.isEmpty && trees.isEmpty && writes.isEmpty && keeps.isEmpty
        }
    }

    var requests: [ObjectRequestID: Request] = [:]
    var searches: [ObjectSearchID: Search] = [:]
    var fetches: [ObjectFetchID: Fetch] = [:]
    var trees: [UInt64: Tree] = [:]
    var nodes: [ObjectNodeID: Node] = [:]
    var writes: [ObjectWriteID: Write] = [:]
    var lines: [WriteName: WriteLine] = [:]
    var keeps: [ObjectKeepID: Keep] = [:]
    /// The requests whose callers asked for other keys than those of their origins, by these keys.
    var aliases: [Key: Set<ObjectRequestID>] = [:]
    /// The closures that wait until there is no write.
    var waitingForWrites: [@Sendable () -> Void] = []
    var members: [Key: Members] = [:]
    /// The work that requests can join.
    var joinableSearches: [SearchName: ObjectSearchID] = [:]
    var joinableFetches: [Kind.Origin: ObjectFetchID] = [:]
    var joinableTrees: [TreeName: UInt64] = [:]
    private var lastNumber: UInt64 = 0

    init() {}

    mutating func nextNumber() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    // MARK: Requests

    /// Adds a request for the object of a path.
    /// - Parameters:
    ///   - looks: whether the tiers may answer. If not, the bytes are fetched at once.
    ///   - interest: the news of a fetch that the request asks for.
    mutating func ask(
        _ waiter: Kind.Waiter, _ origin: Kind.Origin, _ path: Path, _ want: ObjectWant, looks: Bool = true,
        interest: FetchInterest = [], into actions: inout [Action]
    ) -> ObjectRequestID {
        precondition(!path.isEmpty, "an object is made by at least one step")
        let id = ObjectRequestID(number: nextNumber())
        requests[id] = Request(
            waiter: waiter, origin: origin, path: path, want: want, looks: looks, interest: interest)
        if let alias = origin.alias { aliases[alias, default: []].insert(id) }
        begin(id, into: &actions)
        return id
    }

    /// Sends a request to its first stage.
    mutating func begin(_ id: ObjectRequestID, into actions: inout [Action]) {
        guard let request = requests[id] else { return }
        if request.looks || !request.origin.isDecided {
            search(for: id, into: &actions)
        } else {
            fetch(for: [id], Standing(), into: &actions)
        }
    }

    /// Has a request hear more news of its fetch.
    mutating func listen(_ id: ObjectRequestID, to interest: FetchInterest, into actions: inout [Action]) {
        requests[id]?.interest.formUnion(interest)
        if case .fetch(let fetch) = requests[id]?.stage { attend(id, at: fetch, into: &actions) }
    }

    /// Returns the requests for a key, the oldest first: those for its bytes, and those whose callers asked for it.
    func requests(for key: Key) -> [ObjectRequestID] {
        var ids = aliases[key] ?? []
        guard let work = members[key] else { return ids.sorted() }
        for id in work.searches { ids.formUnion(searches[id]?.crowd.requests ?? []) }
        for id in work.fetches { ids.formUnion(fetches[id]?.crowd.requests ?? []) }
        for id in work.trees.flatMap({ trees[$0]?.nodes ?? [] }) { ids.formUnion(nodes[id]?.crowd.requests ?? []) }
        for id in work.writes { ids.formUnion(writes[id]?.crowd.requests ?? []) }
        return ids.sorted()
    }

    /// Changes the urgency of a request.
    mutating func change(_ id: ObjectRequestID, to want: ObjectWant, into actions: inout [Action]) {
        guard let request = requests[id], let stage = request.stage, request.want != want else { return }
        requests[id]?.want = want
        changeCrowd(of: stage) { crowd in
            crowd.remove(id, request.want)
            crowd.add(id, want)
        }
        refresh(stage, into: &actions)
    }

    /// Turns the urgent requests for a key into prefetches.
    mutating func demote(_ key: Key, into actions: inout [Action]) {
        for id in requests(for: key) {
            guard let request = requests[id], request.want.queue == .fast else { continue }
            var want = request.want
            want.queue = .slow
            change(id, to: want, into: &actions)
            actions.append(.tell([request.waiter], .moved(.slow)))
        }
    }

    /// Ends a request. Its work continues if other requests wait for it.
    mutating func cancel(
        _ id: ObjectRequestID, as error: DipperError = .cancelled, into actions: inout [Action]
    ) {
        guard let request = end(id, into: &actions), let stage = request.stage else { return }
        actions.append(.deliver([request.waiter], .failure(error)))
        changeCrowd(of: stage) { $0.remove(id, request.want) }
        settle(stage, into: &actions)
    }

    /// Ends all requests for a key.
    mutating func cancel(key: Key, into actions: inout [Action]) {
        for id in requests(for: key) { cancel(id, into: &actions) }
    }

    /// Ends all requests.
    mutating func cancelAll(as error: DipperError = .cancelled, into actions: inout [Action]) {
        for id in requests.keys.sorted() { cancel(id, as: error, into: &actions) }
    }

    // MARK: Work

    /// Returns whether the driver is making an object.
    func isMaking(_ id: ObjectNodeID) -> Bool {
        if case .making = nodes[id]?.phase { true } else { false }
    }

    func crowd(of work: ObjectWork) -> ObjectCrowd? {
        switch work {
        case .search(let id): searches[id]?.crowd
        case .fetch(let id): fetches[id]?.crowd
        case .node(let id): nodes[id]?.crowd
        case .write(let id): writes[id]?.crowd
        }
    }

    mutating func changeCrowd(of work: ObjectWork, _ body: (inout ObjectCrowd) -> Void) {
        switch work {
        case .search(let id): searches[id]?.crowd.change(body)
        case .fetch(let id): fetches[id]?.crowd.change(body)
        case .node(let id): nodes[id]?.crowd.change(body)
        case .write(let id): writes[id]?.crowd.change(body)
        }
    }

    /// Makes a request wait for work.
    mutating func place(_ id: ObjectRequestID, at stage: ObjectWork) {
        guard let request = requests[id] else { return }
        requests[id]?.stage = stage
        changeCrowd(of: stage) { $0.add(id, request.want) }
    }

    /// Ends work that no request waits for, or tells the driver its urgency if that has changed.
    mutating func settle(_ work: ObjectWork, into actions: inout [Action]) {
        guard let crowd = crowd(of: work) else { return }
        guard crowd.isEmpty else { return refresh(work, into: &actions) }
        if isIdling(work, into: &actions) { return }
        switch work {
        case .search(let id):
            let key = searches[id]?.name.origin.key
            forget(id, into: &actions)
            actions.append(.drop(work))
            if let key { endIdle(of: key, into: &actions) }
            return
        case .fetch(let id): forget(id, into: &actions)
        case .node(let id): return dropNode(id, into: &actions)
        case .write: return
        }
        actions.append(.drop(work))
    }

    /// Lets a fetch, or an object that is being made, go on for the requests for its key that are in a search. A fetch
    /// gets their urgency.
    /// - Returns: whether there are such requests.
    private mutating func isIdling(_ work: ObjectWork, into actions: inout [Action]) -> Bool {
        guard let key = idleKey(of: work), let ids = members[key]?.searches, !ids.isEmpty else { return false }
        members[key]?.hasIdle = true
        var crowd = ObjectCrowd()
        for id in ids { if let search = searches[id] { crowd.add(search.crowd.want) } }
        if case .fetch(let id) = work, fetches[id]?.crowd.told != crowd.want {
            fetches[id]?.crowd.told = crowd.want
            actions.append(.move(work, crowd.want))
        }
        return true
    }

    private func idleKey(of work: ObjectWork) -> Key? {
        switch work {
        case .fetch(let id): return fetches[id]?.origin.key
        case .node(let id):
            guard let node = nodes[id] else { return nil }
            // An object that is made goes on by itself: into memory, or nowhere.
            if case .ready = node.phase { return nil }
            return trees[node.tree]?.name.key
        case .search, .write: return nil
        }
    }

    /// Ends the work that no request waits for, unless a request is still in a search.
    mutating func endIdle(of key: Key, into actions: inout [Action]) {
        guard let work = members[key], work.hasIdle, work.searches.isEmpty else { return }
        members[key]?.hasIdle = false
        for id in work.fetches.sorted(by: { $0.number < $1.number }) where fetches[id]?.crowd.isEmpty == true {
            settle(.fetch(id), into: &actions)
        }
        let nodes = work.trees.sorted().flatMap { trees[$0]?.nodes.sorted() ?? [] }
        for id in nodes where self.nodes[id]?.crowd.isEmpty == true { settle(.node(id), into: &actions) }
    }

    /// Passes on the urgency of work if it has changed: to the driver, or to the parent that a node waits for.
    mutating func refresh(_ work: ObjectWork, into actions: inout [Action]) {
        guard let crowd = crowd(of: work), crowd.told != crowd.want else { return }
        let want = crowd.want
        changeCrowd(of: work) { $0.told = want }
        guard let told = crowd.told else { return }
        guard case .node(let id) = work, let node = nodes[id] else {
            actions.append(.move(work, want))
            return
        }
        if case .making = node.phase, node.hasBegun { actions.append(.move(work, want)) }
        guard let parent = node.parent else { return }
        changeCrowd(of: .node(parent)) { crowd in
            crowd.remove(told)
            crowd.add(want)
        }
        refresh(.node(parent), into: &actions)
    }

    // MARK: Results

    mutating func deliver(
        _ ids: [ObjectRequestID], _ result: Result<Kind.Object, DipperError>, into actions: inout [Action]
    ) {
        var waiters: [Kind.Waiter] = []
        for id in ids { if let request = end(id, into: &actions) { waiters.append(request.waiter) } }
        if !waiters.isEmpty { actions.append(.deliver(waiters, result)) }
    }

    /// Forgets a request.
    private mutating func end(_ id: ObjectRequestID, into actions: inout [Action]) -> Request? {
        guard let request = requests.removeValue(forKey: id) else { return nil }
        if let alias = request.origin.alias, let index = aliases.index(forKey: alias) {
            aliases.values[index].remove(id)
            if aliases.values[index].isEmpty { aliases.remove(at: index) }
        }
        actions.append(.release(.request(request)))
        return request
    }
}
