/// Looking for objects in the tiers, and fetching bytes.
extension ObjectGraph {
    // MARK: Searches

    mutating func search(for id: ObjectRequestID, into actions: inout [Action]) {
        guard let request = requests[id] else { return }
        let name = SearchName(origin: request.origin, path: request.path)
        if let present = joinableSearches[name] {
            place(id, at: .search(present))
            if searches[present]?.hold == nil { searches[present]?.hold = request.hold }
            return refresh(.search(present), into: &actions)
        }
        let search = ObjectSearchID(number: nextNumber())
        searches[search] = Search(name: name, depth: request.path.count, hold: request.hold)
        joinableSearches[name] = search
        members[request.origin.key, default: Members()].searches.insert(search)
        place(id, at: .search(search))
        guard !request.origin.isDecided else { return look(search, into: &actions) }
        refresh(.search(search), into: &actions)
        actions.append(.decide(search, request.origin, request.want))
    }

    /// Takes what a search keeps, with its requests, until the fetch that may follow has begun.
    mutating func keep(_ hold: Kind.Hold, for id: ObjectSearchID) { searches[id]?.hold = hold }

    /// Returns what a search has kept, because it is no longer urgent.
    mutating func takeHold(of id: ObjectSearchID) -> [Kind.Hold] {
        var holds: [Kind.Hold] = []
        for request in searches[id]?.crowd.requests ?? [] {
            if let hold = requests[request]?.hold { holds.append(hold) }
            requests[request]?.hold = nil
        }
        if let hold = searches[id]?.hold { holds.append(hold) }
        searches[id]?.hold = nil
        return holds
    }

    mutating func dropHold(_ id: ObjectRequestID, into actions: inout [Action]) {
        guard let hold = requests[id]?.hold else { return }
        requests[id]?.hold = nil
        actions.append(.release(.hold(hold)))
    }

    /// Takes the tiers' answer to the question which source is asked for.
    /// - Parameter isThere: whether the tiers have the bytes of the source that the caller has asked for.
    mutating func decided(_ id: ObjectSearchID, isThere: Bool, into actions: inout [Action]) {
        let key = searches[id]?.name.origin.key
        for request in close(id, into: &actions) {
            guard let waiting = requests[request] else { continue }
            let origin = waiting.origin.decided(isThere: isThere)
            requests[request]?.origin = origin
            actions.append(.release(.origin(waiting.origin)))
            actions.append(.choose([waiting.waiter], origin))
            if let alias = origin.alias { aliases[alias, default: []].insert(request) }
            begin(request, into: &actions)
        }
        if let key { endIdle(of: key, into: &actions) }
    }

    /// Has the driver look for the part of the path that the search has come to.
    private mutating func look(_ id: ObjectSearchID, into actions: inout [Action]) {
        refresh(.search(id), into: &actions)
        guard let search = searches[id] else { return }
        let name = search.name
        let versions = search.standing.isDetached ? [] : versionsAtHand(of: name.origin.key, for: name.path)
        actions.append(
            .lookUp(
                id, search.name.origin, Array(search.name.path.prefix(search.depth)), versions: versions,
                search.crowd.want))
    }

    /// Takes the tiers' answer to a look.
    mutating func lookedUp(_ id: ObjectSearchID, _ found: Found, into actions: inout [Action]) {
        guard let search = searches[id] else { return release(found, into: &actions) }
        let key = search.name.origin.key
        let path = Array(search.name.path.prefix(search.depth))
        defer { endIdle(of: key, into: &actions) }
        switch found {
        case .object(let object, let version):
            let ids = close(id, into: &actions)
            let tree = tree(TreeName(key: key, version: version), search.standing)
            let node = offer(object, at: path, in: tree, into: &actions)
            for request in ids { enter(request, tree, into: &actions) }
            settle(.node(node), into: &actions)
        case .stored(let bytes, let version):
            let ids = close(id, into: &actions)
            let tree = tree(TreeName(key: key, version: version), search.standing)
            let node = restore(bytes, at: path, in: tree, into: &actions)
            for request in ids { enter(request, tree, into: &actions) }
            begin(node, from: bytes, into: &actions)
        case .underWay(let version):
            let name = TreeName(key: key, version: version)
            // What was at hand may be in a tier by now.
            guard !search.standing.isDetached, let tree = joinableTrees[name], isAtHand(search.name.path, in: tree)
            else { return look(id, into: &actions) }
            for request in close(id, into: &actions) { enter(request, tree, into: &actions) }
        case .outdated(let bytes):
            for request in search.crowd.requests {
                if let old = requests[request]?.earlier { actions.append(.release(.bytes(old))) }
                requests[request]?.earlier = bytes
            }
            goOn(id, into: &actions)
        case .nothing:
            goOn(id, into: &actions)
        }
    }

    /// Ends the requests of a search that cannot be carried out.
    mutating func searchFailed(_ id: ObjectSearchID, _ error: DipperError, into actions: inout [Action]) {
        let key = searches[id]?.name.origin.key
        deliver(close(id, into: &actions), .failure(error), into: &actions)
        if let key { endIdle(of: key, into: &actions) }
    }

    /// Looks for the next ancestor; if there is none, the requests go on to a fetch.
    private mutating func goOn(_ id: ObjectSearchID, into actions: inout [Action]) {
        guard let search = searches[id] else { return }
        if search.depth > 1 {
            searches[id]?.depth -= 1
            return look(id, into: &actions)
        }
        fetch(for: close(id, into: &actions), search.standing, into: &actions)
    }

    /// Ends a search and returns its requests, the oldest first.
    mutating func close(_ id: ObjectSearchID, into actions: inout [Action]) -> [ObjectRequestID] {
        let ids = searches[id]?.crowd.requests.sorted() ?? []
        if let hold = searches[id]?.hold {
            for request in ids where requests[request]?.hold == nil { requests[request]?.hold = hold }
        }
        forget(id, into: &actions)
        return ids
    }

    mutating func forget(_ id: ObjectSearchID, into actions: inout [Action]) {
        guard let search = searches.removeValue(forKey: id) else { return }
        actions.append(.release(.search(search)))
        if joinableSearches[search.name] == id { joinableSearches[search.name] = nil }
        changeMembers(of: search.name.origin.key) { $0.searches.remove(id) }
    }

    private func release(_ found: Found, into actions: inout [Action]) {
        switch found {
        case .object(let object, _): actions.append(.release(.object(object)))
        case .stored(let bytes, _), .outdated(let bytes): actions.append(.release(.bytes(bytes)))
        case .underWay, .nothing: break
        }
    }

    // MARK: Fetches

    /// Lets requests wait for the bytes of their origins. Detached requests have fetches of their own.
    mutating func fetch(for ids: [ObjectRequestID], _ standing: Standing, into actions: inout [Action]) {
        var own: [Kind.Origin: ObjectFetchID] = [:]
        for id in ids {
            guard let request = requests[id] else { continue }
            let present = standing.isDetached ? own[request.origin] : joinableFetches[request.origin]
            if let present {
                place(id, at: .fetch(present))
                if let failure = fetches[present]?.failure {
                    actions.append(.tell([request.waiter], .failure(failure)))
                }
                refresh(.fetch(present), into: &actions)
                attend(id, at: present, into: &actions)
            } else {
                own[request.origin] = beginFetch(for: id, request, standing, into: &actions)
            }
            dropHold(id, into: &actions)
        }
    }

    private mutating func beginFetch(
        for id: ObjectRequestID, _ request: Request, _ standing: Standing, into actions: inout [Action]
    ) -> ObjectFetchID {
        let fetch = ObjectFetchID(number: nextNumber())
        fetches[fetch] = Fetch(origin: request.origin, standing: standing)
        if !standing.isDetached { joinableFetches[request.origin] = fetch }
        members[request.origin.key, default: Members()].fetches.insert(fetch)
        place(id, at: .fetch(fetch))
        refresh(.fetch(fetch), into: &actions)
        actions.append(.fetch(fetch, request.origin, request.want))
        attend(id, at: fetch, into: &actions)
        return fetch
    }

    /// Has the driver listen to a fetch for the news that a request asks for, and shows the request the last preview.
    mutating func attend(_ id: ObjectRequestID, at fetch: ObjectFetchID, into actions: inout [Action]) {
        guard let request = requests[id], let present = fetches[fetch] else { return }
        let new = request.interest.subtracting(present.interest)
        if !new.isEmpty {
            fetches[fetch]?.interest.formUnion(new)
            actions.append(.listen(fetch, new))
        }
        if request.interest.contains(.previews), let preview = present.previews[request.path] {
            actions.append(.show([request.waiter], preview))
        }
    }

    /// Returns the paths of the requests that wait for a fetch.
    func paths(of id: ObjectFetchID) -> [Path] { fetches[id]?.crowd.requests.compactMap { requests[$0]?.path } ?? [] }

    /// Returns the paths of the objects that previews are wanted of, in the order of their requests.
    func previewPaths(of id: ObjectFetchID) -> [Path] {
        var paths: [Path] = []
        for request in fetches[id]?.crowd.requests.sorted() ?? [] {
            guard let request = requests[request], request.interest.contains(.previews) else { continue }
            if !paths.contains(request.path) { paths.append(request.path) }
        }
        return paths
    }

    /// Takes a preview of an object whose bytes are being fetched.
    mutating func previewed(
        _ id: ObjectFetchID, _ path: Path, _ preview: Kind.Object, into actions: inout [Action]
    ) {
        let ids = (fetches[id]?.crowd.requests ?? []).filter {
            requests[$0]?.path == path && requests[$0]?.interest.contains(.previews) == true
        }
        guard !ids.isEmpty else { return actions.append(.release(.object(preview))) }
        if let old = fetches[id]?.previews.updateValue(preview, forKey: path) {
            actions.append(.release(.object(old)))
        }
        actions.append(.show(ids.sorted().compactMap { requests[$0]?.waiter }, preview))
    }

    /// Takes the bytes of a fetch.
    /// - Parameters:
    ///   - isStored: whether a tier had the bytes, so that the network may have others.
    ///   - isNewest: whether the bytes were asked for anew, in place of those that the tiers have.
    ///   - isShared: whether later requests for the key may be answered with the bytes.
    ///   - present: objects made of equal bytes that memory still has. They need not be made again.
    mutating func fetched(
        _ id: ObjectFetchID, _ bytes: Kind.Bytes, _ version: Kind.Version, isStored: Bool, isNewest: Bool = false,
        isShared: Bool = true, present: [Path: Kind.Object] = [:], into actions: inout [Action]
    ) {
        for object in present.values { actions.append(.release(.object(object))) }
        guard let fetch = fetches[id] else {
            actions.append(.release(.bytes(bytes)))
            return
        }
        let ids = close(id, into: &actions)
        // A request that is still in a search finds the bytes in the data cache.
        guard !ids.isEmpty else { return actions.append(.release(.bytes(bytes))) }
        var standing = fetch.standing
        if !isShared { standing.isDetached = true }
        let tree = tree(TreeName(key: fetch.origin.key, version: version), standing)
        if trees[tree]?.bytes == nil { trees[tree]?.bytes = bytes } else { actions.append(.release(.bytes(bytes))) }
        if !isStored { trees[tree]?.isStored = false }
        if isNewest { trees[tree]?.isNewest = true }
        var claimed: [(ObjectNodeID, Kind.Object)] = []
        for request in ids {
            guard let path = requests[request]?.path, let object = present[path] else {
                enter(request, tree, into: &actions)
                continue
            }
            // As if the object had just been made: it is kept with the metadata of these bytes.
            if trees[tree]?.index[path] == nil { claimed.append((claim(path, in: tree), object)) }
            enter(request, tree, into: &actions)
        }
        // After all requests have entered, so that one keeping serves them all.
        for (node, object) in claimed { made(node, object, into: &actions) }
    }

    /// Takes the error with which a fetch has ended.
    mutating func fetchFailed(_ id: ObjectFetchID, _ error: DipperError, into actions: inout [Action]) {
        let ids = close(id, into: &actions)
        let isOver = error == .cancelled || error == .shutDown
        for (reason, ids) in Dictionary(grouping: ids, by: { isOver ? nil : requests[$0]?.refetchedAfter }) {
            deliver(ids, .failure(reason ?? error), into: &actions)
        }
    }

    /// Passes news of a fetch on to the requests that wait for it; progress to those that ask for it.
    mutating func told(_ id: ObjectFetchID, _ news: FetchNews, into actions: inout [Action]) {
        guard let fetch = fetches[id] else { return }
        if case .failure(let error) = news { fetches[id]?.failure = error } else { fetches[id]?.failure = nil }
        var ids = Array(fetch.crowd.requests)
        if case .progress = news { ids.removeAll { requests[$0]?.interest.contains(.progress) != true } }
        let waiters = ids.sorted().compactMap { requests[$0]?.waiter }
        if !waiters.isEmpty { actions.append(.tell(waiters, news)) }
    }

    private mutating func close(_ id: ObjectFetchID, into actions: inout [Action]) -> [ObjectRequestID] {
        let ids = fetches[id]?.crowd.requests.sorted() ?? []
        forget(id, into: &actions)
        return ids
    }

    mutating func forget(_ id: ObjectFetchID, into actions: inout [Action]) {
        guard let fetch = fetches.removeValue(forKey: id) else { return }
        actions.append(.release(.fetch(fetch)))
        if joinableFetches[fetch.origin] == id { joinableFetches[fetch.origin] = nil }
        changeMembers(of: fetch.origin.key) { $0.fetches.remove(id) }
    }

    mutating func changeMembers(of key: Key, _ body: (inout Members) -> Void) {
        guard let index = members.index(forKey: key) else { return }
        body(&members.values[index])
        if members.values[index].isEmpty { members.remove(at: index) }
    }
}
