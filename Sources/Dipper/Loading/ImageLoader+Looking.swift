import Foundation

/// Looks at the disk for pictures that are processed already: the most urgent first, those of calls that have ended never.
extension ImageLoader {
    /// Begins a look for all who wait for the same picture.
    func look(_ task: ImageTask, _ number: Int, _ originals: DataCache) {
        let key = task.memoryKey
        let place = place(task.wish, originals)
        let lookUp = originals.readEntry(task.imageKey, place) { self.looked(key, number, $0) }
        guard let lookUp else { return }
        guard underWay.withLock({ $0.place(lookUp, for: key, number) }) else { return lookUp.cancel() }
        // Before it had its place the call may have ended, or have become more or less urgent.
        updateLook(of: task)
    }

    /// A call that may wait for a look has ended, or is as urgent as it is now.
    func updateLook(of task: ImageTask) {
        switch underWay.withLock({ $0.update(task) }) {
        case .none: break
        case .drop(let look): look.lookUp?.cancel()
        case .move(let number): moveLook(task.memoryKey, number, originals(of: task.options))
        }
    }

    /// Brings a look to the place that the most urgent of those who wait deserves. Another thread may bring it elsewhere at
    /// the same time: the last word must be the one that holds.
    private func moveLook(_ key: CacheKey, _ number: Int, _ originals: DataCache) {
        var told: LookUpQueue.Place?
        while let (lookUp, wish) = underWay.withLock({ $0.position(of: key, number) }) {
            let place = place(wish, originals)
            if place == told { return }
            lookUp.move(to: place)
            told = place
        }
    }

    private func place(_ wish: Wish, _ originals: DataCache) -> LookUpQueue.Place {
        let lane = wish.lane == .fast ? originals.fastLane : originals.slowLane
        return .init(wish.lane, wish.priority, isLIFO: lane.order == .lifo)
    }

    /// The disk has answered those who look for a processed picture.
    private func looked(_ key: CacheKey, _ number: Int, _ stored: StoredData?) {
        // Who asks from now on is to find the work, before those who looked are gone.
        let lead = stored.flatMap { stored in
            underWay.withLock { $0.lookers(for: key, number) }.first { !$0.hasEnded && isGood(stored, for: $0) }
        }
        var work: DecodeWork?
        if let lead, let stored {
            work = DecodeWork(lead, .derived(stored), lead.removed, self)
        }
        let look = underWay.withLock { [work] in $0.looked(for: key, number, work) }
        // What was removed before the work was there to be told.
        if let lead, let work { work.removals.add(lead.removed) }
        for task in look?.waiting.all ?? [] { found(stored, for: task) }
        work?.dropIfUnwanted()
    }
}
