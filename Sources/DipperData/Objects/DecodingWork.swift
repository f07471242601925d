import Foundation

/// One step under way on a thread, such as a decode, for all that wait for its object.
final class DecodingWork: SharedWork {
    struct Source: Sendable {
        let material: Material
        let basis: Provenance
        /// The bytes of the request, also where their stored form is the material.
        var bytes: Data?
        /// The digest of the bytes that the stored form was made of.
        var digestOfForm: UInt64?
        var excerpt: Data?
        /// The making that has begun while the bytes arrived.
        var early: (any EarlyMaking)?

        static func bytes(_ data: Data, _ basis: Provenance, orForm form: StoredData?) -> Source {
            let material = form.map { Material.form($0.data) } ?? .bytes(data)
            return Source(
                material: material, basis: basis, bytes: data, digestOfForm: form?.info.digestOfOriginal,
                excerpt: data)
        }

        static func form(_ form: StoredData, _ source: ResponseSource) -> Source {
            Source(material: .form(form.data), basis: Provenance(ofForm: form.info, source))
        }

        static func object(_ parent: MadeObject) -> Source {
            Source(material: .product(parent.product), basis: parent.basis, excerpt: parent.excerpt)
        }
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
        source.early?.cancel()
        ticket?.cancel()
    }

    /// Whether the step comes before all other work, so that few whole objects wait for their next step.
    var isNext: Bool { if case .product = source.material { true } else { false } }

    func isLike(_ other: Source) -> Bool {
        switch (source.material, other.material) {
        case (.bytes, .bytes): source.basis.info === other.basis.info
        case (.product(let a), .product(let b)): a === b
        default: false
        }
    }

    override func move(to want: Urgency) {
        ticket?.move(to: cache.engine.place(want, isNext: isNext))
    }
}

extension DecodingWork {
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
        let material = source.material
        let programs = if case .bytes = material { step.programs } else { Workers?.none }
        if programs == nil, let place = step.place {
            return Afterwards.run { place.perform { work {} } }
        }
        // The most expensive of the steps that follow counts too.
        let steps = make.family.map(\.step)
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

    func perform(_ run: DecodingWork, _ step: any ObjectStep, _ origin: Origin, keepsBytes: Bool) -> StepResult {
        let (source, material) = (run.source, run.source.material)
        var basis = source.basis
        basis.call = basis.call ?? run.cause
        if let bytes = source.bytes { basis.digest = bytes.digest }
        let form: Data? = if case .form(let form) = material { form } else { nil }
        var object: MadeObject
        // A stored form alone is read after memory has been asked.
        if form == nil || source.bytes != nil, let product = present(run.key, madeOf: basis.digest) {
            object = MadeObject(product, basis)
            object.isPresent = true
        } else {
            if form != nil, source.bytes != nil, source.digestOfForm != basis.digest { return .otherBytes }
            var task = MakingTask(origin.dataKey, call: basis.call, origin.source.events) { run.isCancelled }
            task.early = source.early
            do throws(DipperError) {
                object = MadeObject(try make(of: material, basis, for: origin, step, task), basis)
            } catch {
                return .failed(error)
            }
            object.form = form
        }
        if let form, source.bytes != nil, source.digestOfForm == basis.digest {
            (object.form, object.isRenewed) = (form, true)
        }
        if object.form == nil { object.excerpt = source.excerpt.flatMap { keepsBytes ? step.excerpt(of: $0) : $0 } }
        return .made(object)
    }
}
