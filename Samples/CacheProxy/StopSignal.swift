import Dispatch
import Foundation

/// The signals SIGINT and SIGTERM, as an event to wait for.
enum StopSignal {
    static func arrival() async {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self)
        let sources = [SIGINT, SIGTERM].map { number in
            // The default action would end the process before the source is notified.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { continuation.finish() }
            source.activate()
            return source
        }
        for await _ in signals {}
        for source in sources { source.cancel() }
    }
}
