import Foundation

/// The steps by which objects are made, such as decodes, on the threads of `Workers`.
extension Engine {
    func perform(_ make: ObjectWork, _ source: StepWork.Source, waiting: Int = 0) {
        enter(make, .making)
        let (cache, key) = (make.cache, make.origin.key)
        let works = works(of: key, in: cache.state)
        if let present = works.runs.first(where: {
            $0.key == make.key && $0.isLike(source) && $0.makes.allSatisfy(\.isValid)
        }) {
            present.makes.append(make)
            make.wait(for: present)
            return present.refresh(in: self)
        }
        let run = StepWork(make.key, source)
        run.waiting = waiting
        run.makes = [make]
        make.wait(for: run)
        works.runs.append(run)
        start(run, for: make)
    }

    private func start(_ run: StepWork, for make: ObjectWork) {
        let (cache, origin, step, keepsBytes) = (make.cache, make.origin, make.step, make.keepsBytes)
        let work: @Sendable (@escaping @Sendable () -> Void) -> Void = { taken in
            let result: StepResult? =
                run.isCancelled ? nil : cache.perform(run, step, origin, keepsBytes: keepsBytes)
            // The next work takes its place before the thread goes on.
            let isPosted = self.post { engine in
                if let result { engine.finished(run, result, of: origin.key, in: cache) }
                taken()
            }
            if !isPosted { taken() }
        }
        let programs = run.isOfBytes ? step.programs : nil
        if programs == nil, let place = step.place {
            return Afterwards.run { place.perform { work {} } }
        }
        // The most expensive of the steps that follow counts too.
        let steps = make.family.map(\.step)
        let ticket = (programs ?? cache.workers).add(
            place(make.wants.highest, isNext: run.isNext),
            cost: { steps.reduce(0) { max($0, $1.cost(of: run.material)) } },
            untilTaken: work)
        guard let ticket else { return fail(make, refusal) }
        run.ticket = ticket
    }

    private func finished(_ run: StepWork, _ result: StepResult, of key: CacheKey, in cache: ObjectCache) {
        guard !run.isCancelled else { return }
        let makes = exchange(&run.makes, with: [])
        // Before the callers' closures run, because they may wait for other objects.
        end(run, of: key, in: cache)
        for make in makes {
            make.wait(for: nil)
            if let supply = make.supply { stopWaiting(&supply.waiting, in: cache) }
        }
        switch result {
        case .made(let object):
            for make in makes where make.isValid && make.supply?.isNewest == true {
                make.supply?.isNewest = false
                supersede(by: object, make.origin, in: cache)
            }
            made(object, for: makes, isWritten: object.form != nil)
        case .otherBytes:
            for make in makes {
                make.earlier = nil
                descend(make)
            }
        case .failed(let error, let digest):
            for make in makes { failed(make, run, error, digest) }
        }
    }

    private func failed(_ make: ObjectWork, _ run: StepWork, _ error: DipperError, _ digest: UInt64) {
        let isBroken = error == .undecodable || error == .unsupportedFormat
        switch run.source {
        case .form, .bytes(_, _, orForm: .some):
            guard isBroken else { break }
            // The stored form is bad, and is made again.
            if make.isValid { make.origin.source.discard(make.step.key(make.origin.dataKey)) }
            make.earlier = nil
            return descend(make)
        case .bytes(_, let basis, orForm: nil):
            guard isBroken, make.step.programs == nil else { break }
            // The bytes stay where they are, for calls that can use them; only an answer of the network replaces them.
            make.isClosed = true
            if make.broken == nil, basis.source != .network, make.origin.policy != .cacheOnly {
                make.broken = (error, digest)
                let first = make.supply
                first?.isClosed = true
                leaveSupply(make)
                make.supply = nil
                if let first { tellEndIfOver(first, in: make.cache) }
                return fetch(make)
            }
        case .object: break
        }
        fail(make, error)
    }
}

enum StepResult: Sendable {
    case made(MadeObject)
    case otherBytes
    /// With the digest of the bytes.
    case failed(DipperError, digest: UInt64)
}

extension ObjectCache {
    func perform(_ run: StepWork, _ step: any ObjectStep, _ origin: Origin, keepsBytes: Bool) -> StepResult {
        let basis: Provenance
        let original: Data?
        var digest: UInt64 = 0
        switch run.source {
        case .bytes(let data, var asked, _):
            digest = data.digest
            asked.digest = digest
            basis = asked
            original = data
        case .form(let form, let source):
            basis = Provenance(ofForm: form.info, source)
            original = nil
        case .object(let parent):
            digest = parent.basis.digest
            basis = parent.basis
            original = parent.excerpt
        }
        var object: MadeObject
        // A stored form is read after memory has been asked, with no digest.
        if let product = present(run.key, madeOf: digest) {
            object = MadeObject(product, basis)
            object.isPresent = true
        } else {
            if case .bytes(_, _, let form?) = run.source, form.info.digestOfOriginal != digest { return .otherBytes }
            let (events, material) = (origin.source.events, run.material)
            let task = MakingTask(origin.dataKey, call: basis.call, events) { run.isCancelled }
            do throws(DipperError) {
                object = MadeObject(try step.make(of: material, task), basis)
            } catch {
                return .failed(error, digest: digest)
            }
            if case .form(let form) = material { object.form = form }
        }
        if object.form == nil { object.excerpt = original.flatMap { keepsBytes ? step.excerpt(of: $0) : $0 } }
        return .made(object)
    }
}
