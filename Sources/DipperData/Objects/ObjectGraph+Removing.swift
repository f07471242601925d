/// Removals and additions. Work that began before answers the requests that wait for it, and no others.
///
/// The driver changes the tiers after it has told the graph. What the graph has decided to keep by then is refused when
/// the driver comes to it.
extension ObjectGraph {
    // MARK: Keeping

    /// Takes note that an object is about to be kept in memory. Removals that come before are heeded.
    mutating func expect(_ id: ObjectKeepID, _ path: Path, of key: Key, _ version: Kind.Version? = nil) {
        keeps[id] = Keep(key: key, path: path, version: version)
        members[key, default: Members()].keeps.insert(id)
    }

    /// Returns a new identifier for an object that is about to be kept in memory.
    mutating func expect(_ path: Path, of key: Key) -> ObjectKeepID {
        let id = ObjectKeepID(number: nextNumber())
        expect(id, path, of: key)
        return id
    }

    /// Returns whether an object may still be kept.
    func mayKeep(_ id: ObjectKeepID) -> Bool { keeps[id] != nil }

    /// Takes note that an object has been kept, or will not be.
    mutating func kept(_ id: ObjectKeepID) {
        guard let keep = keeps.removeValue(forKey: id) else { return }
        changeMembers(of: keep.key) { $0.keeps.remove(id) }
    }

    // MARK: Removals

    /// Takes note that everything made from the bytes of a key is removed from some tiers, because the bytes are
    /// removed or replaced.
    mutating func remove(_ key: Key, from tiers: CacheTiers, into actions: inout [Action]) {
        guard let work = members[key] else { return }
        for id in work.searches {
            searches[id]?.standing.revoke(tiers)
            if let name = searches[id]?.name, joinableSearches[name] == id { joinableSearches[name] = nil }
        }
        for id in work.fetches {
            fetches[id]?.standing.revoke(tiers)
            unjoin(id)
        }
        for id in work.trees { detach(id, from: tiers) }
        if tiers.contains(.memory) { for id in work.keeps { kept(id) } }
        revokeWrites(work.writes, from: tiers, into: &actions)
    }

    private mutating func detach(_ tree: UInt64, from tiers: CacheTiers) {
        trees[tree]?.standing.revoke(tiers)
        if let name = trees[tree]?.name, joinableTrees[name] == tree { joinableTrees[name] = nil }
    }

    /// Takes note that one object is removed from some tiers. The bytes, and what else is made from them, stay.
    mutating func remove(_ path: Path, of key: Key, from tiers: CacheTiers, into actions: inout [Action]) {
        for id in requests(for: key) where requests[id]?.path == path && requests[id]?.origin.key == key {
            requests[id]?.revoked.formUnion(tiers)
        }
        guard let work = members[key] else { return }
        for id in work.searches where searches[id]?.name.path == path {
            if let name = searches[id]?.name, joinableSearches[name] == id { joinableSearches[name] = nil }
        }
        // The object of the first step goes with the bytes, so that later requests have others fetched.
        if path.count == 1 { unjoinBytes(of: work) }
        if tiers.contains(.memory) { for id in work.keeps where keeps[id]?.path == path { kept(id) } }
        let name = WriteName(key: key, path: path)
        revokeWrites(work.writes.filter { writes[$0]?.name == name }, from: tiers, into: &actions)
        for id in work.trees {
            for node in trees[id]?.nodes ?? [] where nodes[node]?.path == path {
                nodes[node]?.revoked.formUnion(tiers)
                if trees[id]?.index[path] == node { trees[id]?.index[path] = nil }
            }
        }
    }

    private mutating func unjoin(_ id: ObjectFetchID) {
        if let origin = fetches[id]?.origin, joinableFetches[origin] == id { joinableFetches[origin] = nil }
    }

    private mutating func unjoinBytes(of work: Members) {
        for id in work.fetches { unjoin(id) }
        for id in work.trees { if let name = trees[id]?.name, joinableTrees[name] == id { joinableTrees[name] = nil } }
    }

    /// Takes note that everything is being removed from some tiers.
    mutating func removeAll(from tiers: CacheTiers, into actions: inout [Action]) {
        for key in Array(members.keys) { remove(key, from: tiers, into: &actions) }
    }

    /// Takes note that the objects of some versions are being removed from all tiers.
    mutating func removeAll(where isConcerned: (Kind.Version) -> Bool, into actions: inout [Action]) {
        for (id, tree) in trees where isConcerned(tree.name.version) { detach(id, from: .all) }
        for (id, keep) in keeps where keep.version.map(isConcerned) == true { kept(id) }
        let concerned = Set(writes.filter { isConcerned($0.value.keeping.version) }.keys)
        revokeWrites(concerned, from: .all, into: &actions)
    }

    /// Removes what was made from other versions of the bytes, because an object of the newest has been made.
    mutating func supersede(_ newest: UInt64, by origin: Kind.Origin, into actions: inout [Action]) {
        trees[newest]?.isNewest = false
        guard let name = trees[newest]?.name, let work = members[name.key] else { return }
        for id in work.trees where trees[id]?.name.version != name.version { detach(id, from: .all) }
        for id in work.keeps where keeps[id]?.version != name.version { kept(id) }
        let older = work.writes.filter { writes[$0]?.keeping.version != name.version }
        revokeWrites(older, from: .all, into: &actions)
        actions.append(.purge(origin, before: ObjectKeepID(number: nextNumber())))
    }

    // MARK: Additions

    /// Takes an object that the caller adds in place of what the tiers have. An object of the first step takes the
    /// place of the bytes and of all that is made from them. Requests that are still looking for the object, or for
    /// something made from it, are answered with it. The caller has put the object into memory before.
    /// - Parameter lead: the caller, whose options apply to the write.
    mutating func add(
        _ object: Kind.Object, _ version: Kind.Version, at path: Path, for origin: Kind.Origin,
        by lead: Kind.Waiter? = nil, into actions: inout [Action]
    ) {
        let key = origin.key
        if path.count == 1 {
            remove(key, from: .all, into: &actions)
        } else {
            remove(path, of: key, from: .all, into: &actions)
        }
        let keeping = Keeping(
            id: ObjectKeepID(number: nextNumber()), waiters: [], lead: lead, origins: [origin], isUrgent: true,
            path: path, object: object, version: version)
        // The disk has no other form of an added object.
        if origin.storing != .never { write(keeping, of: key, for: [], into: &actions) }
        var ids: [ObjectRequestID] = []
        for id in members[key]?.searches ?? [] where searches[id]?.name.path.starts(with: path) == true {
            ids += close(id, into: &actions)
            actions.append(.drop(.search(id)))
        }
        guard !ids.isEmpty else { return }
        let tree = tree(TreeName(key: key, version: version), Standing())
        let node = offer(object, at: path, in: tree, into: &actions)
        for request in ids.sorted() { enter(request, tree, into: &actions) }
        settle(.node(node), into: &actions)
        endIdle(of: key, into: &actions)
    }
}
