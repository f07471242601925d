/// Making objects from their parents.
extension ObjectGraph {
    // MARK: Trees

    /// Returns the versions of which the object of a path is being made, or can be made without another look.
    func versionsAtHand(of key: Key, for path: Path) -> [Kind.Version] {
        (members[key]?.trees ?? []).sorted().compactMap { id -> Kind.Version? in
            guard let name = trees[id]?.name, isAtHand(path, in: id), joinableTrees[name] == id else { return nil }
            return name.version
        }
    }

    func isAtHand(_ path: Path, in tree: UInt64) -> Bool {
        guard let tree = trees[tree] else { return false }
        // An object that is being made, but will not be kept, is none for later requests.
        return tree.bytes != nil || tree.index[path].flatMap { nodes[$0]?.revoked.isEmpty } == true
    }

    /// Returns the tree of a version. Detached work gets a tree of its own.
    mutating func tree(_ name: TreeName, _ standing: Standing) -> UInt64 {
        if !standing.isDetached, let present = joinableTrees[name] { return present }
        let id = nextNumber()
        trees[id] = Tree(name: name, standing: standing)
        if !standing.isDetached { joinableTrees[name] = id }
        members[name.key, default: Members()].trees.insert(id)
        return id
    }

    private mutating func addNode(_ path: Path, _ tree: UInt64, _ phase: Phase) -> ObjectNodeID {
        let id = ObjectNodeID(number: nextNumber())
        nodes[id] = Node(tree: tree, path: path, phase: phase)
        trees[tree]?.nodes.insert(id)
        // The table keeps the path of its first node otherwise, which is let go of with that.
        trees[tree]?.index[path] = nil
        trees[tree]?.index[path] = id
        return id
    }

    /// Forgets a node, and its tree if that has no other nodes.
    private mutating func removeNode(_ id: ObjectNodeID, into actions: inout [Action]) {
        guard let node = nodes.removeValue(forKey: id) else { return }
        trees[node.tree]?.nodes.remove(id)
        if trees[node.tree]?.index[node.path] == id { trees[node.tree]?.index[node.path] = nil }
        actions.append(.release(.node(node)))
        guard let tree = trees[node.tree], tree.nodes.isEmpty else { return }
        trees[node.tree] = nil
        if joinableTrees[tree.name] == node.tree { joinableTrees[tree.name] = nil }
        changeMembers(of: tree.name.key) { $0.trees.remove(node.tree) }
        if let bytes = tree.bytes { actions.append(.release(.bytes(bytes))) }
    }

    /// Ends a node that no request and no child waits for, and its parent likewise.
    mutating func dropNode(_ id: ObjectNodeID, into actions: inout [Action]) {
        guard let node = nodes[id] else { return }
        if case .making = node.phase, node.hasBegun { actions.append(.drop(.node(id))) }
        unlink(id, into: &actions)
        removeNode(id, into: &actions)
    }

    /// Ends the interest of a node in its parent.
    private mutating func unlink(_ id: ObjectNodeID, into actions: inout [Action]) {
        guard let node = nodes[id], let parent = node.parent else { return }
        nodes[id]?.parent = nil
        nodes[parent]?.children.remove(id)
        if let told = node.crowd.told { changeCrowd(of: .node(parent)) { $0.remove(told) } }
        settle(.node(parent), into: &actions)
    }

    // MARK: Entering a tree

    /// Adds a node whose object is at hand, for ``made(_:_:into:)`` to take.
    mutating func claim(_ path: Path, in tree: UInt64) -> ObjectNodeID { addNode(path, tree, .making(.bytes)) }

    /// Brings an object of the tiers into a tree, so that others are made from it. The caller settles the node.
    mutating func offer(
        _ object: Kind.Object, at path: Path, in tree: UInt64, into actions: inout [Action]
    ) -> ObjectNodeID {
        if let present = trees[tree]?.index[path] {
            actions.append(.release(.object(object)))
            return present
        }
        return addNode(path, tree, .ready(object))
    }

    /// Brings the stored form of an object into a tree. The caller begins the node.
    mutating func restore(
        _ bytes: Kind.Bytes, at path: Path, in tree: UInt64, into actions: inout [Action]
    ) -> ObjectNodeID {
        if let present = trees[tree]?.index[path] { return present }
        return addNode(path, tree, .making(.stored))
    }

    /// Begins a node that is made from its stored form, now that its requests are known.
    mutating func begin(_ id: ObjectNodeID, from stored: Kind.Bytes, into actions: inout [Action]) {
        guard let node = nodes[id], case .making(.stored) = node.phase, !node.hasBegun else {
            actions.append(.release(.bytes(stored)))
            return
        }
        // The requests may have found their own object in the tree.
        guard !node.crowd.isEmpty else {
            actions.append(.release(.bytes(stored)))
            return dropNode(id, into: &actions)
        }
        make(id, node.path, from: .stored(stored), into: &actions)
    }

    /// Lets a request wait for its object in a tree, or answers it if the object is at hand.
    mutating func enter(_ id: ObjectRequestID, _ tree: UInt64, into actions: inout [Action]) {
        dropHold(id, into: &actions)
        guard let request = requests[id] else { return }
        let found = trees[tree]?.index[request.path]
        // An object that was removed before this request was made is not kept; that of this request is, if there are
        // bytes to make another.
        let isRemoved = found.flatMap { nodes[$0] }.map { !$0.revoked.isSubset(of: request.revoked) } ?? false
        let present = isRemoved && trees[tree]?.bytes != nil ? nil : found
        if let present, case .ready(let object) = nodes[present]?.phase {
            return deliver([id], .success(object), into: &actions)
        }
        let form = present == nil ? takeForm(of: id, tree) : nil
        let node = present ?? addNode(request.path, tree, form == nil ? .waiting : .making(.earlier))
        place(id, at: .node(node))
        nodes[node]?.revoked.formUnion(request.revoked)
        if let form, let bytes = trees[tree]?.bytes {
            make(node, request.path, from: .earlier(form, same: bytes), into: &actions)
        } else if present == nil {
            begin(node, into: &actions)
        } else {
            refresh(.node(node), into: &actions)
        }
    }

    /// Returns the earlier stored form of a request's object, if it was made of the bytes of a tree.
    private mutating func takeForm(of id: ObjectRequestID, _ tree: UInt64) -> Kind.Bytes? {
        guard let form = requests[id]?.earlier, let version = trees[tree]?.name.version, trees[tree]?.bytes != nil,
            Kind.isForm(form, of: version)
        else { return nil }
        requests[id]?.earlier = nil
        return form
    }

    /// Has a new node made, or lets it wait for its parent.
    private mutating func begin(_ id: ObjectNodeID, into actions: inout [Action]) {
        refresh(.node(id), into: &actions)
        guard let node = nodes[id], let tree = trees[node.tree] else { return }
        if let bytes = tree.bytes, isMadeFromBytes(node.path, in: tree) {
            nodes[id]?.phase = .making(.bytes)
            return make(id, node.path, from: .bytes(bytes), into: &actions)
        }
        let path = Array(node.path.dropLast())
        precondition(!path.isEmpty, "a tree without bytes has an ancestor of each node")
        let present = tree.index[path]
        let parent = present ?? addNode(path, node.tree, .waiting)
        nodes[id]?.parent = parent
        nodes[parent]?.children.insert(id)
        if let told = nodes[id]?.crowd.told { changeCrowd(of: .node(parent)) { $0.add(told) } }
        if present == nil { return begin(parent, into: &actions) }
        refresh(.node(parent), into: &actions)
        if case .ready(let object) = nodes[parent]?.phase { grow(id, from: object, into: &actions) }
    }

    private func isMadeFromBytes(_ path: Path, in tree: Tree) -> Bool {
        if path.count == 1 { return true }
        // An object that is there, or on its way, is shared.
        return path.count == 2 && path[1].folds(into: path[0]) && tree.index[[path[0]]] == nil
    }

    /// Has a node made from its parent.
    private mutating func grow(_ id: ObjectNodeID, from parent: Kind.Object, into actions: inout [Action]) {
        guard let node = nodes[id], case .waiting = node.phase else { return }
        nodes[id]?.phase = .making(.object)
        make(id, Array(node.path.suffix(1)), from: .object(parent), into: &actions)
    }

    private mutating func make(
        _ id: ObjectNodeID, _ steps: Path, from material: Material, into actions: inout [Action]
    ) {
        refresh(.node(id), into: &actions)
        nodes[id]?.hasBegun = true
        guard let node = nodes[id], let name = trees[node.tree]?.name else { return }
        actions.append(.make(id, name.version, name.key, node.path, steps: steps, from: material, node.crowd.want))
    }

    // MARK: Answers

    /// Takes an object that was made.
    mutating func made(_ id: ObjectNodeID, _ object: Kind.Object, into actions: inout [Action]) {
        guard let node = nodes[id], let tree = trees[node.tree], case .making(let source) = node.phase else {
            actions.append(.release(.object(object)))
            return
        }
        // Work that a removal or an addition has detached is not the newest any more.
        if tree.isNewest, !tree.standing.isDetached, let origin = origins(below: id).first {
            supersede(node.tree, by: origin, into: &actions)
        }
        nodes[id]?.phase = .ready(object)
        let tiers = CacheTiers.all.subtracting(tree.standing.revoked).subtracting(node.revoked)
        let ids = node.crowd.requests.sorted()
        for request in ids {
            if let want = requests[request]?.want { changeCrowd(of: .node(id)) { $0.remove(request, want) } }
        }
        // The disk has what was made from its stored form.
        let isWritten = source != .stored && node.path.last?.isStored == true
        keep(object, tree.name, node.path, for: ids, in: tiers, isWritten: isWritten, into: &actions)
        for child in node.children.sorted() { grow(child, from: object, into: &actions) }
        settle(.node(id), into: &actions)
    }

    /// Keeps an object that requests have waited for, and delivers it.
    private mutating func keep(
        _ object: Kind.Object, _ name: TreeName, _ path: Path, for ids: [ObjectRequestID], in tiers: CacheTiers,
        isWritten: Bool, into actions: inout [Action]
    ) {
        // What is only a step on the way to other objects would take their room.
        guard !ids.isEmpty else { return }
        let asking = ids.compactMap { requests[$0] }
        let keeping = Keeping(
            id: ObjectKeepID(number: nextNumber()), waiters: asking.map(\.waiter),
            lead: asking.max { $0.origin.storing < $1.origin.storing }?.waiter,
            origins: Set(asking.map(\.origin)), isUrgent: asking.contains { $0.want.queue == .fast }, path: path,
            object: object, version: name.version)
        if tiers.contains(.memory) {
            expect(keeping.id, path, of: name.key, name.version)
            actions.append(.keep(keeping))
        }
        guard isWritten, asking.contains(where: { $0.origin.storing != .never }) else {
            return deliver(ids, .success(object), into: &actions)
        }
        guard tiers.contains(.disk) else {
            let failed = ids.filter { requests[$0]?.origin.storing == .required }
            deliver(ids.filter { !failed.contains($0) }, .success(object), into: &actions)
            return deliver(failed, .failure(.notWritten), into: &actions)
        }
        let patient = ids.filter { (requests[$0]?.origin.storing ?? .never) >= .awaited }
        deliver(ids.filter { !patient.contains($0) }, .success(object), into: &actions)
        write(keeping, of: name.key, for: patient, revoked: CacheTiers.all.subtracting(tiers), into: &actions)
    }

    /// Takes the error with which the making of an object has ended.
    /// - Parameter isBroken: whether the material cannot be decoded.
    mutating func makingFailed(
        _ id: ObjectNodeID, _ error: DipperError, isBroken: Bool, into actions: inout [Action]
    ) {
        guard let node = nodes[id], let tree = trees[node.tree], case .making(let source) = node.phase else { return }
        let origins = origins(below: id)
        unlink(id, into: &actions)
        let ids = uproot(id, into: &actions).sorted()
        guard isBroken, source != .object else { return deliver(ids, .failure(error), into: &actions) }
        if source == .stored || source == .earlier {
            if !tree.standing.isDetached, let origin = origins.first {
                actions.append(.discard(origin, node.path, .all))
            }
            return fetch(for: ids, tree.standing, into: &actions)
        }
        // The bytes stay where they are, for requests that can use them; only an answer of the network replaces them.
        if joinableTrees[tree.name] == node.tree { joinableTrees[tree.name] = nil }
        var (again, ended): ([ObjectRequestID], [ObjectRequestID]) = ([], [])
        for request in ids {
            if tree.isStored, mayRefetch(request) { again.append(request) } else { ended.append(request) }
        }
        deliver(ended, .failure(error), into: &actions)
        for request in again {
            requests[request]?.refetchedAfter = error
            if let renewed = requests[request]?.origin.renewed { requests[request]?.origin = renewed }
        }
        fetch(for: again, tree.standing, into: &actions)
    }

    private func mayRefetch(_ id: ObjectRequestID) -> Bool {
        requests[id].map { $0.refetchedAfter == nil && $0.origin.mayRefetch } ?? false
    }

    /// Removes a node and all that waits for it.
    /// - Returns: the requests that waited.
    private mutating func uproot(_ id: ObjectNodeID, into actions: inout [Action]) -> [ObjectRequestID] {
        guard let node = nodes[id] else { return [] }
        removeNode(id, into: &actions)
        var ids = Array(node.crowd.requests)
        for child in node.children.sorted() { ids += uproot(child, into: &actions) }
        return ids
    }

    /// Returns the origins of the requests that wait for a node or for what is made from it.
    private func origins(below id: ObjectNodeID) -> Set<Kind.Origin> {
        guard let node = nodes[id] else { return [] }
        let own = Set(node.crowd.requests.compactMap { requests[$0]?.origin })
        return node.children.reduce(into: own) { $0.formUnion(origins(below: $1)) }
    }
}
