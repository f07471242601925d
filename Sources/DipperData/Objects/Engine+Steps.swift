import Foundation

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
            place(make.wants.highest, isNext: run.isNext), of: origin.key,
            cost: { (steps.reduce(0) { max($0, $1.cost(of: run.material)) }, step.load(of: run.material).effort) },
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
            for make in makes where make.isValid {
                guard let supply = make.supply, exchange(&supply.isNewest, with: false) else { continue }
                supersede(by: object, of: supply, make.origin, in: cache)
            }
            made(object, for: makes, isWritten: object.form != nil)
        case .otherBytes:
            for make in makes {
                make.earlier = nil
                descend(make)
            }
        case .failed(let error):
            for make in makes { failed(make, run, error) }
        }
    }

    private func failed(_ make: ObjectWork, _ run: StepWork, _ error: DipperError) {
        guard error.isOfBytes else { return fail(make, error) }
        switch run.source {
        case .form, .bytes(_, _, orForm: .some):
            // The stored form is bad, and is made again.
            if make.isValid { make.origin.source.discard(make.step.key(make.origin.dataKey)) }
            make.earlier = nil
            return descend(make)
        case .bytes(_, let basis, orForm: nil):
            guard make.step.programs == nil else { break }
            // The bytes stay where they are, for calls that can use them; only an answer of the network replaces them.
            make.isClosed = true
            guard let supply = make.supply, make.origin.policy != .cacheOnly else { break }
            supply.isClosed = true
            // Stored bytes are out of date for the call. An answer, or bytes about which the server was asked just now,
            // count as a failed attempt.
            let known = make.cache.misfits[make.origin.key, make.step.kind]
            let isRenewal = !basis.source.isAnswer && make.broken == nil && known.map { $0.due <= time.now() } != false
            guard isRenewal || make.origin.following == nil else { break }
            make.broken = isRenewal ? error : nil
            make.supply = nil
            fetch(make, after: isRenewal ? nil : (supply, error))
            return leave(supply, make)
        case .object: break
        }
        fail(make, error)
    }
}

enum StepResult: Sendable {
    case made(MadeObject)
    case otherBytes
    case failed(DipperError)
}

extension ObjectCache {
    /// Makes an object. A failure that is due to bytes is evidence against them.
    func make(
        of material: Material, _ basis: Provenance, for origin: Origin, _ step: any ObjectStep, _ task: MakingTask
    ) throws(DipperError) -> Product {
        guard case .bytes = material, step.programs == nil else { return try step.make(of: material, task) }
        let (key, kind, now) = (origin.key, step.kind, engine.time.now())
        if !basis.source.isAnswer, let known = misfits[key, kind], known.digest == basis.digest, now < known.due {
            throw known.error
        }
        do throws(DipperError) {
            let product = try step.make(of: material, task)
            if !basis.info.isStandIn { misfits.forget(key, kind) }
            return product
        } catch {
            if error.isOfBytes { misfits.find(error, in: basis, for: key, kind, at: now) }
            throw error
        }
    }

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
                object = MadeObject(try make(of: material, basis, for: origin, step, task), basis)
            } catch {
                return .failed(error)
            }
            if case .form(let form) = material { object.form = form }
        }
        if object.form == nil { object.excerpt = original.flatMap { keepsBytes ? step.excerpt(of: $0) : $0 } }
        return .made(object)
    }
}
