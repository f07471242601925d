import Dispatch
import Foundation
import Synchronization

/// A handler of signals: the first SIGINT or SIGTERM becomes a call, the second one ends the process.
final class Interrupt {
    private let sources: [any DispatchSourceSignal]
    private let handler: FirstCall

    /// Whether there was a signal.
    var happened: Bool { handler.wasCalled.load(ordering: .relaxed) }

    init(_ onInterrupt: @escaping @Sendable () -> Void) {
        let queue = DispatchQueue(label: "dipper.interrupt")
        let handler = FirstCall(onInterrupt)
        self.handler = handler
        signal(SIGPIPE, SIG_IGN)
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler { handler.call() }
            source.activate()
            return source
        }
    }

    func end() {
        for source in sources { source.cancel() }
    }

    private final class FirstCall: Sendable {
        private let body: @Sendable () -> Void
        let wasCalled = Atomic(false)

        init(_ body: @escaping @Sendable () -> Void) {
            self.body = body
        }

        func call() {
            if wasCalled.exchange(true, ordering: .relaxed) { _exit(130) }
            body()
        }
    }
}
