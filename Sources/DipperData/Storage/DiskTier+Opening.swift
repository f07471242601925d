import Foundation
import GRDB

/// Opening, and opening again when something was lost.
extension DiskTier {
    func reopen() {
        let old = opened
        guard !old.isClosed else { return }
        let new = open()
        if let problem = new.problem, problem.isRefusal, problem != old.problem {
            logger.error("the cache keeps nothing on disk: \(problem.description)")
        }
        replaceOpened(new)
        if new.index != nil { writer.run { self.sweepIfDue() } }
    }

    private func open() -> Opened {
        var new = Opened()
        do {
            let folder = try CacheFolder.open(options.folder)
            do throws(FileError) {
                new.files = try BlobFiles(root: folder)
            } catch {
                complain("the folder cannot be written: nothing is kept on disk", error)
                new.files = try? BlobFiles(readingOnly: folder)
                new.problem = StoreProblem("\(error)", isReadable: new.files != nil)
            }
            guard let files = new.files else { return new }
            new.partials = PartialFiles(root: folder, files: files)
            guard let staging = files.staging else { return new }
            (new.index, new.indexFile) = try openIndex(in: folder, staging.folder)
        } catch let refusal as FolderRefusal {
            return Opened(problem: StoreProblem("\(refusal)", isRefusal: true))
        } catch {
            complain("the folder or its index cannot be opened: nothing is kept on disk", error)
            new.problem = StoreProblem("\(error)")
        }
        return new
    }

    private func openIndex(in folder: Folder, _ staging: Folder) throws -> (EntryIndex, IndexFile) {
        let file = try IndexFile.current(in: folder, staging)
        do {
            return (try index(file), file)
        } catch {
            guard [.damage, .suspicion].contains(IndexFailure(error)) else { throw error }
            logger.warning("the index cannot be read and is set aside", metadata: ["error": "\(error)"])
        }
        let next = try file.next(staging)
        return (try index(next), next)
    }

    private func index(_ file: IndexFile) throws -> EntryIndex {
        do {
            return try EntryIndex(path: file.path, boot: options.boot)
        } catch is EntryIndex.ForeignDatabase {
            throw FolderRefusal(options.folder, .otherIndex)
        }
    }

    /// An index has failed. A damaged one is made anew on the writer's thread.
    func indexFailed(_ error: any Error) {
        let failure = IndexFailure(error)
        guard [.damage, .suspicion].contains(failure), let failed = (error as? IndexError)?.index else {
            complain("the index fails", error)
            return
        }
        writer.run {
            // The first to notice has done it for all.
            guard self.opened.index === failed, let file = self.opened.indexFile,
                let staging = self.opened.files?.staging
            else { return }
            // Another process may have made the next one.
            if file.isCurrent {
                guard failure == .damage || !self.isSound(failed) else {
                    return self.complain("the index fails", error)
                }
                self.logger.warning("the index is damaged and is made anew", metadata: ["error": "\(error)"])
                _ = try? file.next(staging.folder)
            }
            try? failed.close()
            self.reopen()
        }
    }

    private func isSound(_ index: EntryIndex) -> Bool {
        do {
            return try index.hasOwnSchema() && index.integrityProblems().isEmpty
        } catch {
            return ![.damage, .suspicion].contains(IndexFailure(error))
        }
    }

    /// The folder may have been removed, or the index set aside by another process.
    func reopenIfLost() {
        let opened = opened
        if opened.isPresent { return }
        if opened.indexFile?.isCurrent == false {
            logger.notice("the folder has changed behind the cache's back and is opened again")
        }
        reopen()
    }

    /// Compares files and index in the background if they may differ: after the machine was started anew, after a store
    /// ended without closing, and if the index is new or an earlier comparison was not finished.
    private func sweepIfDue() {
        guard let index = opened.index, let files = opened.files else { return }
        do {
            let isLost = try index.isNew ? !files.shards().isEmpty : index.sweptBoot() != options.boot
            if isLost || files.foundAbandoned { try index.setSweepPosition(.init()) }
            guard let position = try index.sweepPosition() else { return }
            start(Sweep(index, from: position, isNoted: true), .background)
        } catch {
            indexFailed(error)
        }
    }
}
