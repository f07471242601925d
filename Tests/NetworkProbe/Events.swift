import DipperData
import FaultServer
import Foundation

/// A printer of events: one JSON object a line, with the time of the call to ``print(_:_:)``.
final class EventPrinter: Sendable {
    private let queue = DispatchQueue(label: "events")

    func print(_ event: String, _ members: [String: any Sendable] = [:]) {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let milliseconds = Double(time.tv_sec) * 1e3 + Double(time.tv_nsec) / 1e6
        queue.async {
            let object = members.merging(["event": event, "ms": milliseconds]) { $1 }
            guard var line = try? JSONSerialization.data(withJSONObject: object, options: .sortedKeys) else { return }
            line.append(UInt8(ascii: "\n"))
            FileHandle.standardOutput.write(line)
        }
    }

    func flush() { queue.sync {} }
}

/// Prints which fetches are held back.
struct Pauses: EventSink {
    let printer: EventPrinter

    var topics: CacheEvent.Topics { .fetches }

    func receive(_ event: CacheEvent) {
        if event.kind == .paused { printer.print("pause", ["url": event.key.string]) }
    }
}

func follow(_ task: DataTask, _ url: String, _ printer: EventPrinter) {
    task.onFail { error, isFatal in
        printer.print("fail", ["url": url, "error": error.shortDescription, "fatal": isFatal])
    }
    task.onProgress { progress in printer.print("progress", ["url": url, "bytes": progress.received]) }
    task.onRetry { printer.print("retry", ["url": url]) }
    task.onEnd { result in
        switch result {
        case .success(let response):
            printer.print(
                "end",
                [
                    "url": url, "source": response.source.rawValue, "attempts": response.attempts,
                    "checksum": FaultServer.checksum(of: response.data),
                ])
        case .failure(let error): printer.print("end", ["url": url, "error": error.shortDescription])
        }
    }
}
