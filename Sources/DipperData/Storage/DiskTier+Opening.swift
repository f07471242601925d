import Foundation

extension DiskTier {
    /// - Parameter isWaiting: whether to wait up to two seconds for another process that holds the index; otherwise the
    ///   index is opened later, in the background.
    func reopen(isWaiting: Bool = true) {
        let old = opened
        guard !old.isClosed else { return }
        let new = open(isWaiting)
        if let problem = new.problem, problem.isRefusal, problem != old.problem {
            logger.error("the cache keeps nothing on disk: \(problem.description)")
        }
        replaceOpened(new)
        if new.index != nil {
            start(SweepRequest(), .sweep)
            writer.run {
                self.noteExpiries()
                self.keepReserve()
                self.carryOnClearing()
            }
        }
        if new.isIndexHeld, !old.isIndexHeld { start(IndexOpening(), .opening) }
    }

    /// Each step of a job opens the index first.
    private struct IndexOpening: DiskJob {
        func step(_ tier: DiskTier) -> Bool { false }
        func end(_ tier: DiskTier) {}
    }

    private struct SweepRequest: DiskJob {
        func step(_ tier: DiskTier) throws -> Bool {
            try tier.sweepIfDue()
            return false
        }
        func end(_ tier: DiskTier) {}
    }

    private func open(_ isWaiting: Bool) -> Opened {
        var new = Opened()
        do {
            let folder = try CacheFolder.open(options.folder)
            do throws(FileError) {
                new.files = try files(in: folder)
            } catch {
                complain("the folder cannot be written: nothing is kept on disk", error)
                if [EROFS, EACCES, EPERM, ENOSPC, EDQUOT].contains(error.code) { openReadingOnly(folder, &new) }
                new.problem = StoreProblem("\(error)", isReadable: new.index != nil)
            }
            if new.files?.lock == nil { return new }
            // A member stays the same, so that it does not wait for itself.
            if options.sharesLeases { new.leases = leases.flatMap { $0.isIn(folder) ? $0 : nil } ?? leases(in: folder) }
            let room: Room = state.withLock { $0.staged.removals.isEmpty } ? .reserve : .bodies
            try withRoom(room, new.files) { try openIndex(in: folder, isWaiting, &new) }
        } catch let refusal as StoreProblem {
            return Opened(problem: refusal)
        } catch let error where IndexFailure(error) == .busy {
            (new.isIndexHeld, new.isIndexComing) = (true, !isWaiting)
        } catch {
            complain("the folder or its index cannot be opened: nothing is kept on disk", error)
            new.problem = StoreProblem("\(error)")
        }
        return new
    }

    /// A full disk may leave no room for the folders and the lock either.
    private func files(in folder: Folder) throws(FileError) -> BlobFiles {
        do {
            return try BlobFiles(root: folder, faults: options.faults)
        } catch {
            guard FileError.isFull(error.code), folder.remove(BlobFiles.reserve) else { throw error }
            return try BlobFiles(root: folder, faults: options.faults)
        }
    }

    private func leases(in folder: Folder) -> FolderLeases? {
        do throws(FileError) {
            return FolderLeases(try LeaseFile(in: folder))
        } catch {
            logger.notice(
                "processes that share the folder may fetch a key several times: it has no locks",
                metadata: ["error": "\(error)", "folder": "\(options.folder)"])
            return nil
        }
    }

    private func openReadingOnly(_ folder: Folder, _ new: inout Opened) {
        guard let path = IndexFile.pathReadingOnly(in: folder) else { return }
        new.files = try? BlobFiles(readingOnly: folder, faults: options.faults)
        if new.files != nil { new.index = try? EntryIndex(readingOnly: path) }
    }

    private func openIndex(in folder: Folder, _ isWaiting: Bool, _ new: inout Opened) throws {
        let file = try IndexFile.current(in: folder)
        do {
            (new.index, new.indexFile) = (try index(file, new.files, isWaiting), file)
        } catch let error where IndexFailure(error).meansDamage {
            logger.warning("the index cannot be read and is set aside", metadata: ["error": "\(error)"])
            let next = try file.next()
            (new.index, new.indexFile) = (try index(next, new.files, isWaiting), next)
        }
    }

    private func index(_ file: IndexFile, _ files: BlobFiles?, _ isWaiting: Bool) throws -> EntryIndex {
        // The log takes at most a sixteenth of a small volume.
        let logPages = files?.volume.map { min(max(64, $0.size >> 16), 4_000) } ?? 4_000
        return try EntryIndex(
            path: file.path, boot: options.boot, order: options.evictionOrder, isWaiting: isWaiting,
            logPages: logPages, faults: options.faults)
    }

    func indexFailed(_ error: any Error) {
        let failure = IndexFailure(error)
        guard failure.meansDamage, let failed = (error as? IndexError)?.index else {
            complain("the index fails", error)
            return
        }
        writer.run {
            guard self.opened.index === failed, let file = self.opened.indexFile else { return }
            if file.isCurrent {
                guard failure == .damage || !self.isSound(failed) else {
                    return self.complain("the index fails", error)
                }
                self.logger.warning("the index is damaged and is made anew", metadata: ["error": "\(error)"])
                _ = try? file.next()
            }
            failed.close()
            self.reopen()
        }
    }

    private func isSound(_ index: EntryIndex) -> Bool {
        do {
            return try index.isSound()
        } catch {
            return !IndexFailure(error).meansDamage
        }
    }

    /// Opens the store again if the folder was removed, or if another process has set the index aside.
    func reopenIfLost() {
        let opened = opened
        if opened.isPresent, opened.isWritable { return }
        if opened.indexFile?.isCurrent == false {
            logger.notice("the folder has changed behind the cache's back and is opened again")
        }
        reopen()
    }

    /// Rows and files may differ after a reboot, after a store ended without closing, if the index is new, and if an
    /// earlier comparison was not finished.
    private func sweepIfDue() throws {
        let opened = opened
        guard let index = opened.index, let lock = opened.files?.lock else { return }
        let abandoned = lock.abandoned()
        if !abandoned.isEmpty || index.isNew { try index.requestSweep() }
        // The index remembers from here on that a comparison is due.
        lock.remove(abandoned)
        if let number = try index.dueSweep(boot: options.boot) { start(OrphanSweep(.due(number), index), .sweep) }
    }
}
