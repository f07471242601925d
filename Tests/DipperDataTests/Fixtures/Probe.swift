import Foundation
import TestSupport

/// A running NetworkProbe and the events that it has printed.
final class Probe {
    /// A line that the probe printed.
    struct Event: Decodable, Sendable {
        var event: String
        var ms: Double
        var url: String?
        var error: String?
        var fatal: Bool?
        var source: String?
        var bytes: Int?
        var attempts: Int?
        var checksum: String?
        var host: String?
        var answer: Bool?
        var counts: [Int]?
    }

    struct Ended: Error {
        let waitingFor: String
    }

    /// The events read so far.
    private(set) var events: [Event] = []
    private let folder = TemporaryFolder()
    private let process = Process()
    private let input = Pipe()
    private var lines: AsyncStream<Event>.Iterator

    init(_ tool: URL, _ prefix: [String], _ arguments: [String]) throws {
        let output = Pipe()
        process.executableURL = tool
        process.arguments = prefix + [folder.url.path] + arguments
        process.standardInput = input
        process.standardOutput = output
        let descriptor = output.fileHandleForReading
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self)
        lines = stream.makeAsyncIterator()
        try process.run()
        // Reading blocks, so it needs a thread outside of Swift concurrency.
        let reader = Thread {
            var rest = Data()
            while true {
                let data = descriptor.availableData
                if data.isEmpty { break }
                rest += data
                while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    if let event = try? JSONDecoder().decode(Event.self, from: rest[..<end]) {
                        continuation.yield(event)
                    }
                    rest = Data(rest[rest.index(after: end)...])
                }
            }
            continuation.finish()
        }
        reader.start()
    }

    func send(_ command: String) {
        try? input.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
    }

    /// Returns the first event of a kind, for a url if one is given; waits for the event if necessary.
    @discardableResult
    func wait(_ kind: String, _ url: String? = nil, after start: Int = 0) async throws -> Event {
        try await wait(kind, after: start) { url == nil || $0.url == url }
    }

    private func wait(_ kind: String, after start: Int, _ isMeant: (Event) -> Bool) async throws -> Event {
        var position = start
        while true {
            while position < events.count {
                let event = events[position]
                if event.event == kind, isMeant(event) { return event }
                position += 1
            }
            guard let event = await lines.next() else { throw Ended(waitingFor: "\(kind) in \(events)") }
            events.append(event)
        }
    }

    /// Sends a command and returns the next event of a kind.
    func ask(_ command: String, _ kind: String) async throws -> Event {
        let start = events.count
        send(command)
        return try await wait(kind, after: start)
    }

    func reaches(_ host: String) async throws -> Bool {
        try await ask("reach \(host)", "reach").answer == true
    }

    /// Waits until the monitors report that a host is, or is not, reachable; only the test's time limit ends the wait.
    func waitUntil(_ host: String, isReachable: Bool) async throws {
        while try await reaches(host) != isReachable {}
    }

    /// Returns the number of events of a kind that were read so far.
    func count(_ kind: String) -> Int { events.count { $0.event == kind } }

    func stop() {
        guard process.isRunning else { return }
        // SIGKILL, because children of Dispatch's threads start with all other signals blocked.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try? input.fileHandleForWriting.close()
    }
}
