/// The fetches that wait for the network, by the host that they ask first.
@Loop
struct OfflineFetches {
    /// The place of a fetch in the table.
    struct Place {
        fileprivate let host: String
        fileprivate let number: UInt64
        let since: Duration
    }

    private var hosts: [String: [UInt64: Fetch]] = [:]
    private var lastNumber: UInt64 = 0

    nonisolated init() {}

    mutating func add(_ fetch: Fetch, waitingFor host: String, since now: Duration) -> Place {
        lastNumber += 1
        hosts[host, default: [:]][lastNumber] = fetch
        return Place(host: host, number: lastNumber, since: now)
    }

    mutating func remove(_ place: Place) {
        hosts[place.host]?[place.number] = nil
        if hosts[place.host]?.isEmpty == true { hosts[place.host] = nil }
    }

    /// Returns the fetches whose host can be reached, in the order in which they began to wait. Asks once for each host.
    func reached(by network: any NetworkMonitor) -> [Fetch] {
        let reached = hosts.keys.filter(network.canReach)
        return reached.flatMap { hosts[$0] ?? [:] }.sorted { $0.key < $1.key }.map(\.value)
    }
}
