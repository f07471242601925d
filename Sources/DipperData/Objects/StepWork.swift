import Foundation

/// One step under way on a thread, for all that wait for its object.
final class StepWork: SharedWork {
    enum Source: Sendable {
        case bytes(Data, Provenance, orForm: StoredData?)
        case form(StoredData, ResponseSource)
        case object(MadeObject)
    }

    let cache: ObjectCache
    let key: CacheKey
    let source: Source
    private let origin: Origin
    var waiting = 0
    var makes: [ObjectWork] = []
    var ticket: Workers.Ticket?
    private let cancellation = Cancellation()
    /// The work that traces show as the cause, if no call has brought bytes for the step.
    let cause: CacheEvent.ID?

    init(_ make: ObjectWork, _ source: Source) {
        (cache, key, origin, self.source) = (make.cache, make.key, make.origin, source)
        cause = origin.source.events.wants(.traces) ? make.identity.id : nil
    }

    nonisolated var isCancelled: Bool { cancellation.isSet }
    func cancel() {
        cancellation.set()
        ticket?.cancel()
    }

    /// Whether the step comes before all other work, so that few whole objects wait for their next step.
    var isNext: Bool { if case .object = source { true } else { false } }

    nonisolated var material: Material {
        switch source {
        case .bytes(let data, _, nil): .bytes(data)
        case .form(let form, _), .bytes(_, _, .some(let form)): .form(form.data)
        case .object(let parent): .product(parent.product)
        }
    }

    nonisolated var isOfBytes: Bool { if case .bytes(_, _, orForm: nil) = source { true } else { false } }

    func isLike(_ other: Source) -> Bool {
        switch (source, other) {
        case (.bytes(_, let a, nil), .bytes(_, let b, nil)): a.info === b.info
        case (.object(let a), .object(let b)): a.product === b.product
        default: false
        }
    }

    override func move(to want: Urgency) {
        ticket?.move(to: cache.engine.place(want, isNext: isNext))
    }
}

extension StepWork {
    func end() {
        cache.stopWaiting(&waiting)
        cache.state.change(origin.key) { works in works.runs.removeAll { $0 === self } }
    }

    func start(for make: ObjectWork) {
        let (cache, origin, step, keepsBytes) = (cache, origin, make.step, make.keepsBytes)
        let work: @Sendable (@escaping @Sendable () -> Void) -> Void = { taken in
            let result: StepResult? =
                self.isCancelled ? nil : cache.perform(self, step, origin, keepsBytes: keepsBytes)
            // The next work takes its place before the thread goes on.
            cache.engine.post {
                if let result { self.finished(result) }
                taken()
            }
        }
        let programs = isOfBytes ? step.programs : nil
        if programs == nil, let place = step.place {
            return Afterwards.run { place.perform { work {} } }
        }
        // The most expensive of the steps that follow counts too.
        let steps = make.family.map(\.step)
        let material = material
        let ticket = (programs ?? cache.workers).add(
            cache.engine.place(make.wants.highest, isNext: isNext), of: origin.key,
            cost: { (steps.reduce(0) { max($0, $1.cost(of: material)) }, step.load(of: material).effort) },
            untilTaken: work)
        guard let ticket else { return make.fail(cache.engine.refusal) }
        self.ticket = ticket
    }

    private func finished(_ result: StepResult) {
        guard !isCancelled else { return }
        let makes = exchange(&makes, with: [])
        // Before the callers' closures run, because they may wait for other objects.
        end()
        for make in makes {
            make.wait(for: nil)
            if let supply = make.supply { cache.stopWaiting(&supply.waiting) }
        }
        switch result {
        case .made(let object):
            for make in makes where make.isValid {
                guard let supply = make.supply, exchange(&supply.isNewest, with: false) else { continue }
                cache.supersede(by: object, of: supply, make.origin)
            }
            cache.made(object, for: makes, isWritten: object.form != nil && !object.isRenewed)
        case .otherBytes:
            for make in makes {
                make.earlier = nil
                make.descend()
            }
        case .failed(let error):
            for make in makes { make.failed(self, error) }
        }
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
        var basis: Provenance
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
        basis.call = basis.call ?? run.cause
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
        if case .bytes(_, _, let form?) = run.source, form.info.digestOfOriginal == digest {
            (object.form, object.isRenewed) = (form.data, true)
        }
        if object.form == nil { object.excerpt = original.flatMap { keepsBytes ? step.excerpt(of: $0) : $0 } }
        return .made(object)
    }
}
