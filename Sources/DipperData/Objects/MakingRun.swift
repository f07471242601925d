import Synchronization

/// The making of one object.
final class MakingRun: Sendable {
    private let cancelled = Atomic(false)
    private let waiting: [WaitingBytes]
    /// Whether the making comes before all other work of its queue.
    let isNext: Bool

    /// - Parameter waiting: the bytes that the object is made from.
    init(_ waiting: [WaitingBytes?], isNext: Bool) {
        self.waiting = waiting.compactMap(\.self)
        self.isNext = isNext
    }

    var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

    func cancel() {
        cancelled.store(true, ordering: .relaxed)
        done()
    }

    /// Takes note that the bytes wait no longer.
    func done() { for bytes in waiting { bytes.done() } }
}

/// Bytes that count as waiting until something is made of them, or until they are let go of.
final class WaitingBytes: Sendable {
    private let count: Atomic<Int>
    private let note: @Sendable (Int) -> Void

    /// - Parameter note: called with the number of bytes now, and with its negative in the end.
    init(_ bytes: Int, _ note: @escaping @Sendable (Int) -> Void) {
        count = Atomic(bytes)
        self.note = note
        if bytes > 0 { note(bytes) }
    }

    deinit { done() }

    /// Counts the bytes no longer. Without effect the second time.
    func done() {
        let bytes = count.exchange(0, ordering: .relaxed)
        if bytes > 0 { note(-bytes) }
    }
}
