import DipperData
import Foundation
import Synchronization

/// The running calls, and the `wait` commands that wait for them.
final class Calls: Sendable {
    private struct State {
        var next = 0
        var running: Set<Int> = []
        var waiting: [Set<Int>] = []
    }

    private let state = Mutex(State())
    private let printer: EventPrinter

    init(_ printer: EventPrinter) {
        self.printer = printer
    }

    /// Prints the events of a task.
    func follow(_ task: DataTask, _ url: String) {
        let number = state.withLock { state in
            state.next += 1
            state.running.insert(state.next)
            return state.next
        }
        task.onFail { [printer] error, isFatal in
            printer.print("fail", ["url": url, "error": error.shortDescription, "fatal": isFatal])
        }
        task.onProgress { [printer] progress in printer.print("progress", ["url": url, "bytes": progress.received]) }
        task.onRetry { [printer] in printer.print("retry", ["url": url]) }
        task.onEnd { [self] result in
            switch result {
            case .success(let response):
                printer.print(
                    "end",
                    [
                        "url": url, "source": response.source.rawValue, "bytes": response.data.count,
                        "attempts": response.attempts, "checksum": ProbeChecksum.of(response.data),
                    ])
            case .failure(let error):
                printer.print("end", ["url": url, "error": error.shortDescription])
            }
            ended(number)
        }
    }

    /// Prints `idle` once all calls made so far have ended.
    func wait() {
        let isIdle = state.withLock { state in
            if !state.running.isEmpty { state.waiting.append(state.running) }
            return state.running.isEmpty
        }
        if isIdle { printer.print("idle") }
    }

    private func ended(_ number: Int) {
        let idle = state.withLock { state in
            state.running.remove(number)
            for index in state.waiting.indices { state.waiting[index].remove(number) }
            let before = state.waiting.count
            state.waiting.removeAll(where: \.isEmpty)
            return before - state.waiting.count
        }
        for _ in 0..<idle { printer.print("idle") }
    }
}
