import Foundation

/// Looking at the disk before a fetch begins, the most urgent looks first. A look whose calls have all ended is
/// dropped.
extension ImageLoader {
    typealias LookName = UnderWay.LookName

    /// Looks for a processed picture on disk, for all tasks that wait for it.
    func look(_ task: ImageTask, _ number: Int, _ originals: DataCache) {
        let name = LookName(purpose: .picture, key: task.memoryKey)
        let place = place(task.wish, originals)
        begin(
            originals.readEntry(task.imageKey, place) { self.looked(name, number, $0) }, name, number, for: task)
    }

    /// Starts a call whose source is decided by a look at the disk: the smaller source is loaded unless a tier has the
    /// larger one.
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
        // Before the look had its place, the call may have ended or changed its urgency.
        updateLook(of: task)
    }

    /// Takes note that a task, which may wait for a look, has ended or changed its urgency.
    func updateLook(of task: ImageTask) {
        switch underWay.withLock({ $0.update(task) }) {
        case .none: break
        case .drop(let look): look.lookUp?.cancel()
        case .move(let name, let number): moveLook(name, number, originals(of: task.options))
        }
    }

    /// Moves a look to the place of its most urgent task. Another thread may move it at the same time, so the loop ends
    /// only when the place told last is still right.
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

    /// Passes the disk's answer on to the tasks that look for a processed picture.
    private func looked(_ name: LookName, _ number: Int, _ stored: StoredData?) {
        // The work must be in the table before the look leaves it, so that a call that begins now finds one of them.
        let lead = stored.flatMap { stored in
            underWay.withLock { $0.lookers(for: name, number) }.first { !$0.hasEnded && isGood(stored, for: $0) }
        }
        var work: DecodeWork?
        if let lead, let stored {
            work = DecodeWork(lead, .derived(stored), lead.removed, self)
        }
        let look = underWay.withLock { [work] in $0.looked(for: name, number, work) }
        // Removals that were made before the work was in the table.
        if let lead, let work { work.removals.add(lead.removed) }
        for task in look?.waiting.all ?? [] { found(stored, for: task) }
        work?.dropIfUnwanted()
    }

    /// Starts the calls that waited to know whether a tier has the larger source.
    private func decided(_ name: LookName, _ number: Int, isThere: Bool) {
        let look = underWay.withLock { $0.looked(for: name, number) }
        for task in look?.waiting.all ?? [] {
            let originals = originals(of: task.options)
            task.decide(task.request.with(\.data, originals.effective(task.request.data, isThere: isThere)))
            if !answer(task, originals) { start(task) }
        }
    }
}
