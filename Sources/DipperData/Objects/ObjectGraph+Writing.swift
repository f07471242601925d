/// Writing objects to disk: one write at a time for each object, and none for what has been removed.
extension ObjectGraph {
    /// The number of writes from which on a write is as urgent as a request: each write holds an object.
    private static var mostLeisurely: Int { 8 }

    /// Has an object written, after the write of the same object that is under way, and in place of the one that waits.
    /// - Parameters:
    ///   - ids: the requests that end with the write.
    ///   - revoked: the tiers from which the object has been removed already.
    mutating func write(
        _ keeping: Keeping, of key: Key, for ids: [ObjectRequestID], revoked: CacheTiers = [],
        into actions: inout [Action]
    ) {
        let name = WriteName(key: key, path: keeping.path)
        let id = ObjectWriteID(number: nextNumber())
        writes[id] = Write(name: name, keeping: keeping, revoked: revoked)
        members[key, default: Members()].writes.insert(id)
        for request in ids { place(request, at: .write(id)) }
        guard let line = lines[name] else {
            lines[name] = WriteLine(first: id)
            return begin(id, into: &actions)
        }
        if writes[line.first]?.hasBegun == true {
            lines[name]?.next = id
            if let replaced = line.next { end(replaced, .failed, into: &actions) }
        } else {
            // The table keeps the name of the replaced write otherwise, which is let go of with that.
            lines[name] = nil
            lines[name] = WriteLine(first: id)
            actions.append(.drop(.write(line.first)))
            end(line.first, .failed, into: &actions)
            begin(id, into: &actions)
        }
    }

    private mutating func begin(_ id: ObjectWriteID, into actions: inout [Action]) {
        guard let write = writes[id] else { return }
        var want: ObjectWant?
        if !write.crowd.isEmpty {
            want = write.crowd.want
        } else if writes.count > Self.mostLeisurely {
            want = ObjectWant(.fast)
        }
        changeCrowd(of: .write(id)) { $0.told = want }
        actions.append(.write(id, write.keeping, want))
    }

    /// Returns whether an object may still be written. The driver asks before it encodes the object, and again before
    /// it stores the result.
    mutating func mayWrite(_ id: ObjectWriteID) -> Bool {
        writes[id]?.hasBegun = true
        return writes[id].map { !$0.isRevoked } ?? false
    }

    /// Takes note that a write is about to end.
    /// - Parameters:
    ///   - isUnwanted: whether the requests have no further use for the bytes.
    ///   - isNew: whether the bytes were fetched for them.
    /// - Returns: whether the bytes are to be removed: nobody wants them, and nothing else is made of them. Whatever is
    ///   made of them may need them, and the right to be kept.
    mutating func endUse(_ id: ObjectWriteID, isUnwanted: Bool, isNew: Bool) -> Bool {
        writes[id]?.hasEnded = true
        guard let key = writes[id]?.name.key, let work = members[key] else { return false }
        let isToDrop = isUnwanted && (isNew || work.isToDrop)
        members[key]?.isToDrop = isToDrop
        return isToDrop && work.searches.isEmpty && work.fetches.isEmpty && work.trees.isEmpty
            && work.writes.allSatisfy { writes[$0]?.hasEnded == true }
    }

    /// Takes the end of a write.
    mutating func written(_ id: ObjectWriteID, _ result: ObjectWriteEnd, into actions: inout [Action]) {
        guard let write = writes[id] else { return }
        // mutant Removal: `lt == .stored,` => `lt == .failed,`
        if !write.revoked.isEmpty, result == .stored, let origin = write.keeping.origins.first {
            actions.append(.discard(origin, write.name.path, write.revoked))
        }
        let next = lines.removeValue(forKey: write.name)?.next
        if let next, let name = writes[next]?.name { lines[name] = WriteLine(first: next) }
        end(id, write.isRevoked ? .failed : result, into: &actions)
        if let next { begin(next, into: &actions) }
    }

    /// Returns the object that is being written, or waits for that, unless it has been removed.
    func beingWritten(_ path: Path, of key: Key) -> (object: Kind.Object, version: Kind.Version)? {
        guard let line = lines[WriteName(key: key, path: path)], let write = writes[line.next ?? line.first],
            !write.isRevoked
        else { return nil }
        return (write.keeping.object, write.keeping.version)
    }

    /// Has a closure called when there is no write.
    mutating func afterWrites(_ body: @escaping @Sendable () -> Void, into actions: inout [Action]) {
        if writes.isEmpty { actions.append(.call([body])) } else { waitingForWrites.append(body) }
    }

    // MARK: Ends

    /// Keeps what is being written, or waits for that, out of some tiers: a write to disk that has not begun ends, and
    /// others are taken back when they end.
    mutating func revokeWrites(_ ids: Set<ObjectWriteID>, from tiers: CacheTiers, into actions: inout [Action]) {
        for id in ids.sorted(by: { $0.number < $1.number }) {
            guard let write = writes[id] else { continue }
            if write.hasBegun || !tiers.contains(.disk) {
                writes[id]?.revoked.formUnion(tiers)
            } else if lines[write.name]?.first == id {
                // There is none that waits for it: it would have taken this one's place.
                lines[write.name] = nil
                actions.append(.drop(.write(id)))
                end(id, .failed, into: &actions)
            } else {
                lines[write.name]?.next = nil
                end(id, .failed, into: &actions)
            }
        }
    }

    /// Forgets a write, and answers the requests that wait for it.
    private mutating func end(_ id: ObjectWriteID, _ result: ObjectWriteEnd, into actions: inout [Action]) {
        guard let write = writes.removeValue(forKey: id) else { return }
        changeMembers(of: write.name.key) { $0.writes.remove(id) }
        let ids = write.crowd.requests.sorted()
        // mutant Durable: `sts[$0]?.origin.storing == .required` => `sts[$0] == nil`
        let failed = ids.filter { result == .failed && requests[$0]?.origin.storing == .required }
        deliver(ids.filter { !failed.contains($0) }, .success(write.keeping.object), into: &actions)
        deliver(failed, .failure(.notWritten), into: &actions)
        actions.append(.release(.keeping(write.keeping)))
        guard writes.isEmpty, !waitingForWrites.isEmpty else { return }
        actions.append(.call(exchange(&waitingForWrites, with: [])))
    }
}
