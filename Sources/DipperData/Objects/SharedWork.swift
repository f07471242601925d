import Foundation
import Synchronization

/// Work that several may wait for and that is done once: bringing bytes, or making an object. It is as urgent as the
/// most urgent that waits, and hands its urgency on to the work that it waits for itself.
@Loop
class SharedWork {
    final var wants = Urgencies()
    private final var told: Urgency?
    private(set) final var dependency: SharedWork?

    /// Takes the urgency of work that waits for no other.
    func move(to want: Urgency, in engine: Engine) {}

    /// The caller settles the work that this work has waited for.
    final func wait(for work: SharedWork?) {
        if let told { dependency?.wants.remove(told) }
        let want = wants.highest
        told = want
        work?.wants.add(want)
        dependency = work
    }

    final func refresh(in engine: Engine) {
        let want = wants.highest
        guard want != told else { return }
        if let dependency {
            if let told { dependency.wants.remove(told) }
            dependency.wants.add(want)
        }
        told = want
        if let dependency { dependency.refresh(in: engine) } else { move(to: want, in: engine) }
    }
}

/// Makes an object for calls with one origin: looks at the tiers, gets the parent or the bytes, runs the step.
final class ObjectWork: SharedWork {
    enum Stage {
        case looking
        case waiting
        case making
        case writing
        case ready
        case over
    }

    let cache: ObjectCache
    let origin: Origin
    let step: any ObjectStep
    let keepsBytes: Bool
    let key: CacheKey
    /// Claimed before the first look.
    let claim: Claim
    var stage = Stage.looking
    /// The number of the stage, by which late answers are recognised.
    var round: UInt64 = 0
    /// By their numbers, so that each of thousands leaves in constant time.
    var calls: [UInt64: ObjectCall] = [:]
    var children: [ObjectWork] = []
    /// `nil` if the object is made from bytes, or is in a tier.
    var parent: ObjectWork?
    /// `nil` if the object is made from another, or is in a tier.
    var supply: BytesWork?
    var lookUp: Workers.Ticket?
    /// Whether no prefetch starts because this work may fetch.
    var isReserved = false
    /// The stored form made of earlier bytes. It serves if the bytes are still the same.
    var earlier: StoredData?
    /// The reason why the object cannot be made of stored bytes, which are fetched again.
    var broken: DipperError?
    var object: MadeObject?
    var isWritten = false
    var isClosed = false
    /// Whether the object is not kept, because a newer one takes its place.
    var isOutdated = false

    init(_ cache: ObjectCache, _ origin: Origin, _ step: any ObjectStep, keepsBytes: Bool) {
        (self.cache, self.origin, self.step, self.keepsBytes) = (cache, origin, step, keepsBytes)
        key = step.key(origin.key)
        claim = origin.source.claim(
            origin.dataKey, of: origin.request, step.isStored ? step.key(origin.dataKey) : nil, within: origin.claim)
    }

    var isValid: Bool { !isOutdated && !claim.isRevoked }
    var isCurrent: Bool { !isClosed && isValid }

    /// The fetch that has brought, or will bring, the bytes: for this work itself or for its parent.
    var root: BytesWork? { supply ?? parent?.root }

    var fetch: BytesWork? {
        stage == .waiting ? root.flatMap { $0.basis == nil ? $0 : nil } : nil
    }

    /// The time left to calls for making the object; `nil` if they have no limit, or wait for something else.
    var timeLeft: Duration? {
        if stage == .looking || stage == .waiting || stage == .over {
            return stage == .waiting ? parent?.timeLeft : nil
        }
        guard let limits = root?.task.wait.knownLimits, let limit = limits.limit, let fetch = limits.past else {
            return origin.source.timeout(of: origin.request)
        }
        return limit - fetch.findings.budget.spent(at: origin.source.engine.time.now())
    }

    var isMade: Bool { stage == .writing || stage == .ready }

    var family: [ObjectWork] { children.reduce([self]) { $0 + $1.family } }
    var allCalls: [ObjectCall] { family.flatMap(\.calls.values) }

    override func move(to want: Urgency, in engine: Engine) {
        lookUp?.move(to: engine.place(want))
        if want.queue == .slow { engine.release(self) }
    }
}

/// The fetch of bytes for objects, as one call of the data cache.
final class BytesWork: SharedWork {
    let origin: Origin
    let claim: Claim
    let task: DataTask
    let keepsBytes: Bool
    /// The call that the events tell of: an earlier one, if nothing could be made of its answer.
    let caller: DataTask
    var makes: [ObjectWork] = []
    var failure: DipperError?
    var data: Data?
    var basis: Provenance?
    /// The order in which the bytes came, among all.
    var arrival: UInt64 = 0
    /// The number of bytes that wait to be made into an object.
    var waiting = 0
    var previews: Previews?
    var isClosed = false
    /// Whether objects of other bytes are out of date as soon as an object is made of these.
    var isNewest: Bool
    var hasTold = false

    init(_ origin: Origin, _ claim: Claim, _ task: DataTask, keepsBytes: Bool, for caller: DataTask?) {
        (self.origin, self.claim, self.task, self.keepsBytes) = (origin, claim, task, keepsBytes)
        self.caller = caller ?? task
        isNewest = origin.isAnew && origin.policy != .bypass
    }

    var isCurrent: Bool { !isClosed && !claim.isRevoked }

    func endPreviews() {
        previews?.cancellation.set()
        previews = nil
    }

    override func move(to want: Urgency, in engine: Engine) {
        // Others may follow the same fetch, so it only becomes more urgent.
        let mayFall = origin.following == nil
        if mayFall || want.queue == .fast { origin.source.engine.perform { [task] in $0.move(task, to: want.queue) } }
        if mayFall ? task.priority != want.priority : task.priority < want.priority { task.priority = want.priority }
    }
}

/// One step under way on a thread, for all that wait for its object.
final class StepWork: SharedWork {
    enum Source: Sendable {
        case bytes(Data, Provenance, orForm: StoredData?)
        case form(StoredData, ResponseSource)
        case object(MadeObject)
    }

    let key: CacheKey
    let source: Source
    var waiting = 0
    var makes: [ObjectWork] = []
    var ticket: Workers.Ticket?
    private let cancellation = Cancellation()

    init(_ key: CacheKey, _ source: Source) { (self.key, self.source) = (key, source) }

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

    override func move(to want: Urgency, in engine: Engine) {
        ticket?.move(to: engine.place(want, isNext: isNext))
    }
}

final class WriteWork: SharedWork {
    let object: MadeObject
    let origin: Origin
    let step: any ObjectStep
    let claim: Claim?
    let keepsBytes: Bool
    /// Work whose calls wait for the end.
    let makes: [ObjectWork]
    /// Work that looks for the object again after the write.
    var blocked: [ObjectWork] = []
    var ticket: Workers.Ticket?
    private nonisolated let begun = Atomic(false)

    init(
        _ object: MadeObject, _ origin: Origin, _ step: any ObjectStep, _ claim: Claim? = nil, keepsBytes: Bool = true,
        for makes: [ObjectWork] = []
    ) {
        (self.object, self.origin, self.step, self.claim) = (object, origin, step, claim)
        (self.keepsBytes, self.makes) = (keepsBytes, makes)
    }

    nonisolated var isAwaited: Bool { !makes.isEmpty }

    nonisolated var key: CacheKey { object.isAdded ? step.addedKey(origin.key) : step.key(origin.key) }
    nonisolated var place: CacheKey { object.isAdded ? step.addedKey(origin.dataKey) : step.key(origin.dataKey) }

    /// Returns whether the caller may carry out or drop the write: the first one may.
    nonisolated func take() -> Bool { !begun.exchange(true, ordering: .acquiringAndReleasing) }

    override func move(to want: Urgency, in engine: Engine) {
        ticket?.move(to: engine.place(want, isNext: true))
    }
}

@Loop
final class WorksOfKey {
    var makes: [ObjectWork] = []
    var supplies: [BytesWork] = []
    var runs: [StepWork] = []

    var isEmpty: Bool { makes.isEmpty && supplies.isEmpty && runs.isEmpty }
}

/// The answer that an object was made from, without its bytes.
package struct Provenance: Sendable {
    package let info: EntryInfo
    /// 0 if there are no bytes.
    package var digest: UInt64 = 0
    package let source: ResponseSource
    package var attempts = 0
    package var metrics: TransferMetrics?
    package var asked: DataRequest.Source?
    /// The fetch of newer bytes, if these are out of date.
    package var revalidation: DataTask?
    package var claim: Claim?
    var call: CacheEvent.ID?
}

extension Provenance {
    /// - Parameter info: the metadata of the stored form that the object is made from.
    init(ofForm info: EntryInfo, _ source: ResponseSource) {
        self.init(info: info, digest: info.digestOfOriginal ?? 0, source: source)
    }
}

package struct MadeObject: Sendable {
    package let product: Product
    package let basis: Provenance
    var isAdded = false
    /// Whether memory has had the object already, so that it need not be written again.
    var isPresent = false
    var form: Data?
    var excerpt: Data?

    init(_ product: Product, _ basis: Provenance) { (self.product, self.basis) = (product, basis) }
}
