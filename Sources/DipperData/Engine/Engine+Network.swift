import Foundation

/// The network comes and goes.
extension Engine {
    func networkChanged() {
        transport.networkChanged()
        for case let fetch as Fetch in queues.onNetwork {
            fetch.sources.lead.request.transport?.networkChanged()
        }
        permissionsChanged()
    }

    func permissionsChanged() {
        wakeReachable()
        for case let fetch as Fetch in queues.onNetwork where !fetch.canReach { fetch.watchUnreachable() }
    }

    nonisolated func transport(of call: Call) -> any Transport {
        (call.request.hasHooks ? call.request.transport : nil) ?? transport
    }

    private func wakeReachable() {
        let waiting = offline.reached(by: network).filter(\.mayUseNetwork)
        let inTurn = waiting.filter { $0.queue == .fast } + waiting.filter { $0.queue == .slow }
        guard !inTurn.isEmpty else { return }
        // Several caches and processes hear of the network at the same time, and should not start at the same time.
        let offset = options.wakeSpacing * Double.random(in: 0..<1)
        let spacing = min(options.wakeSpacing, options.wakeSpread / inTurn.count)
        for (place, fetch) in inTurn.enumerated() { fetch.wake(after: offset + spacing * place) }
    }

    var waitingFetches: Int {
        fetches.all.count(where: \.isWaiting)
    }
}

/// No host decides for how long others wait: while no fetch of a queue starts although some wait, the transfer that brings
/// least gives its slot back, keeps its bytes, and goes on after those that wait.
extension Engine {
    private static let lookInterval = Duration.seconds(5)
    /// In bytes a second: the rate that a transfer needs to keep its slot grows with each second of others' wait.
    private static let rateGrowth = 128.0
    private static let mostNeeded = 16_384.0

    func watchSlots(of queue: FetchQueue, _ starts: Int, since blocked: Duration) {
        timers.add(at: time.now() + Self.lookInterval, .slots(queue, starts, since: blocked))
    }

    func relieve(_ queue: FetchQueue, _ starts: Int, since blocked: Duration) {
        let (now, latest) = (time.now(), queues.starts(of: queue))
        let inTheWay = queues.inTheWay(of: queue)
        if inTheWay.isEmpty { return }
        let needed = min((now - blocked).timeInterval * Self.rateGrowth, Self.mostNeeded)
        var slowest: (run: Run, fetch: Fetch, rate: Double)?
        for case let fetch as Fetch in inTheWay {
            guard let run = fetch.run, run.transfer != nil, run.attempt.isRepeatable, fetch.sources.provider == nil
            else {
                continue
            }
            let received = run.reception.received
            let looks = run.looks ?? (now, now, received)
            run.looks = (looks.first, now, received)
            // Each time it holds its slot for longer, so that a body that cannot be continued comes through in the end.
            let held = Self.lookInterval * (1 << min(fetch.findings.yields, 8))
            guard now > looks.last, now - looks.first >= held, received >= looks.received else { continue }
            let rate = Double(received - looks.received) / (now - looks.last).timeInterval
            if rate < slowest?.rate ?? needed { slowest = (run, fetch, rate) }
        }
        if let slowest, latest == starts {
            slowest.fetch.findings.yields += 1
            slowest.run.giveWay()
        }
        watchSlots(of: queue, latest, since: latest == starts ? blocked : now)
    }
}
