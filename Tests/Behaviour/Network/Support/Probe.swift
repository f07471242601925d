import Foundation
import TestSupport

/// A running NetworkProbe and the events that it has printed.
final class Probe {
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
        var answer: Bool?
    }

    private(set) var events: [Event] = []
    private let tool: LineTool

    init(_ tool: LineTool) { self.tool = tool }

    func send(_ command: String) { tool.write(command + "\n") }

    @discardableResult
    func wait(_ kind: String, _ url: String? = nil, after start: Int = 0) async throws -> Event {
        var position = start
        while true {
            while position < events.count {
                let event = events[position]
                if event.event == kind, url == nil || event.url == url { return event }
                position += 1
            }
            guard let line = await tool.nextLine() else { throw Unavailable(what: "the probe ended before \(kind)") }
            events.append(try JSONDecoder().decode(Event.self, from: Data(line.utf8)))
        }
    }

    /// Makes a call and waits for its end.
    func get(_ url: String) async throws -> Event {
        send("get \(url)")
        return try await wait("end", url)
    }

    func ask(_ command: String, _ kind: String) async throws -> Event {
        let start = events.count
        send(command)
        return try await wait(kind, after: start)
    }

    func reaches(_ host: String) async throws -> Bool { try await ask("reach \(host)", "reach").answer == true }

    func waitUntil(_ host: String, isReachable: Bool) async throws {
        while true {
            let start = events.count
            if try await reaches(host) == isReachable { return }
            try await wait("network", after: start)
        }
    }

    func count(_ kind: String) -> Int { events.count { $0.event == kind } }

    func nextLine() async -> String? { await tool.nextLine() }
}
