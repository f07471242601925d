import Foundation

/// Looks at the disk before anything is fetched: the most urgent first, those of calls that have ended never.
extension ImageLoader {
    typealias LookName = UnderWay.LookName

    /// Looks for a picture that is processed already, for all who wait for it.
    func look(_ task: ImageTask, _ number: Int, _ originals: DataCache) {
        let name = LookName(purpose: .picture, key: task.memoryKey)
        let place = place(task.wish, originals)
        begin(
            originals.readEntry(task.imageKey, place) { self.looked(name, number, $0) }, name, number, for: task)
    }

    /// Starts a call that is for something smaller than what was asked for, unless the tiers have that.
    func decide(_ task: ImageTask) {
        live.add(task)
        let originals = originals(of: task.options)
        if task.queue == .fast { task.hold(originals.reserveFast())?.release() }
        let name = LookName(purpose: .decision, key: task.memoryKey)
        guard let number = underWay.withLock({ $0.wait(task, for: .decision) }) else { return updateLook(of: task) }
        let place = place(task.wish, originals)
        begin(
            originals.hasEntry(task.key, place) { self.decided(name, number, isThere: $0) }, name, number, for: task)
    }

    private func begin(_ lookUp: LookUp?, _ name: LookName, _ number: Int, for task: ImageTask) {
        guard let lookUp else { return }
        guard underWay.withLock({ $0.place(lookUp, for: name, number) }) else { return lookUp.cancel() }
        // Before it had its place the call may have ended, or have become more or less urgent.
        updateLook(of: task)
    }

    /// A call that may wait for a look has ended, or is as urgent as it is now.
    func updateLook(of task: ImageTask) {
        switch underWay.withLock({ $0.update(task) }) {
        case .none: break
        case .drop(let look): look.lookUp?.cancel()
        case .move(let name, let number): moveLook(name, number, originals(of: task.options))
        }
    }

    /// Brings a look to the place that the most urgent of those who wait deserves. Another thread may bring it elsewhere at
    /// the same time: the last word must be the one that holds.
    private func moveLook(_ name: LookName, _ number: Int, _ originals: DataCache) {
        var told: LookUpQueue.Place?
        while let (lookUp, wish) = underWay.withLock({ $0.position(of: name, number) }) {
            let place = place(wish, originals)
            if place == told { return }
            lookUp.move(to: place)
            told = place
        }
    }

    private func place(_ wish: Wish, _ originals: DataCache) -> LookUpQueue.Place {
        let queue = wish.queue == .fast ? originals.fastQueue : originals.slowQueue
        return .init(wish.queue, wish.priority, isLIFO: queue.order == .lifo)
    }

    /// The disk has answered those who look for a processed picture.
    private func looked(_ name: LookName, _ number: Int, _ stored: StoredData?) {
        // Who asks from now on is to find the work, before those who looked are gone.
        let lead = stored.flatMap { stored in
            underWay.withLock { $0.lookers(for: name, number) }.first { !$0.hasEnded && isGood(stored, for: $0) }
        }
        var work: DecodeWork?
        if let lead, let stored {
            work = DecodeWork(lead, .derived(stored), lead.removed, self)
        }
        let look = underWay.withLock { [work] in $0.looked(for: name, number, work) }
        // What was removed before the work was there to be told.
        if let lead, let work { work.removals.add(lead.removed) }
        for task in look?.waiting.all ?? [] { found(stored, for: task) }
        work?.dropIfUnwanted()
    }

    /// Starts the calls that waited to know whether the tiers have the large source.
    private func decided(_ name: LookName, _ number: Int, isThere: Bool) {
        let look = underWay.withLock { $0.looked(for: name, number) }
        for task in look?.waiting.all ?? [] {
            let originals = originals(of: task.options)
            task.decide(task.request.with(\.data, originals.effective(task.request.data, isThere: isThere)))
            if !answer(task, originals) { start(task) }
        }
    }
}
