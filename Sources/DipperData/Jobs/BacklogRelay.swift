import Synchronization

/// A relay that passes notices of the disk tier's backlog on to the engine. The engine owns the disk tier and is
/// created after it.
final class BacklogRelay: Sendable {
    private final class Target: Sendable {
        weak let engine: FetchEngine?

        init(_ engine: FetchEngine) { self.engine = engine }
    }

    private let target = AtomicLazyReference<Target>()

    func connect(_ engine: FetchEngine) { _ = target.storeIfNil(Target(engine)) }

    func send(_ notice: BacklogNotice) { target.load()?.engine?.storageBacklogged(notice) }
}
