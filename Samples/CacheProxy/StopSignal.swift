import Dispatch
import Foundation

/// SIGINT and SIGTERM, as something to wait for.
enum StopSignal {
    static func arrival() async {
        let (signals, continuation) = AsyncStream.makeStream(of: Void.self)
        let sources = [SIGINT, SIGTERM].map { number in
            // Else the process ends before the source is told.
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
