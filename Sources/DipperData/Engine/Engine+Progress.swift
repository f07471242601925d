import Foundation

/// The progress of transfers and the bytes received so far, for the calls that want them.
extension Engine {
    /// Has progress told to a call from now on, beginning with the present progress, because the next bytes may be long
    /// in coming.
    func wantProgress(_ task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.wantsProgress = true
        fetch.run?.reception.setWanted(true)
        if let progress = fetch.progress { report(.progress, of: fetch, progress) }
    }

    /// Has the bytes received so far shown to a call from now on.
    func wantBytes(_ task: DataTask) {
        guard let fetch = task.wait.fetch else { return }
        fetch.wantsBytes = true
        fetch.run?.reception.setWanted(true)
        if let progress = fetch.progress { report(.bytes, of: fetch, progress) }
    }

    /// Tells the waiting calls of news of a transfer, at most once per interval.
    /// - Parameter isAgain: whether an earlier report was put off until now.
    func report(_ news: Fetch.News, of fetch: Fetch, _ progress: TaskProgress, isAgain: Bool = false) {
        guard let run = fetch.run, !fetch.isOver else { return }
        let isLast = news == .progress && progress.received == progress.expected
        let own = fetch.demand.hasOwnPace ? fetch.calls.compactMap(\.request.progressInterval).min() : nil
        let answer = run.ask(
            news, at: time.now(), interval: own ?? options.progressInterval, isLast: isLast, isAgain: isAgain)
        switch answer {
        case .no: break
        case .later(let wait):
            // News just before the flow stops must be told as well.
            timers.add(at: time.now() + wait, .report(fetch, news))
        case .now:
            switch news {
            case .progress:
                for waiter in fetch.waiters { tell(waiter) { $0.tell(progress) } }
            case .bytes: showBytes(of: fetch, run)
            }
        }
    }

    private func showBytes(of fetch: Fetch, _ run: Run) {
        let viewers = fetch.waiters.filter(\.hasViewer)
        guard let transfer = run.transfer, !viewers.isEmpty else {
            fetch.wantsBytes = !viewers.isEmpty
            return
        }
        transfer.copyBody { [weak self, joined = run.joined, inherited = run.inherited] bytes, offset in
            // Joining bodies and looking at them takes time.
            self?.views.async {
                guard offset == 0 || offset == inherited, let whole = offset == 0 ? bytes : joined?.joined(bytes)
                else { return }
                for task in viewers { task.show(whole) }
            }
        }
    }
}

extension Run {
    fileprivate func ask(
        _ news: Fetch.News, at time: Duration, interval: Duration, isLast: Bool, isAgain: Bool
    ) -> Pacing.Answer {
        switch news {
        case .progress: progressPace.ask(at: time, interval: interval, isLast: isLast, isAgain: isAgain)
        case .bytes: bytesPace.ask(at: time, interval: interval, isAgain: isAgain)
        }
    }
}

/// The pacing of reports: at most one per interval, the latest one last. A value that the reporter asks before each
/// report.
struct Pacing: Sendable {
    enum Answer: Equatable {
        /// Report now.
        case now
        /// Ask again after this time.
        case later(Duration)
        /// Do nothing: another report follows.
        case no
    }

    private var last: Duration?
    private var willAsk = false

    /// Returns what the reporter should do about news.
    /// - Parameters:
    ///   - isLast: whether nothing follows, so that it is reported whatever the interval.
    ///   - isAgain: whether the reporter asks because an earlier answer told it to ask later.
    mutating func ask(at time: Duration, interval: Duration, isLast: Bool = false, isAgain: Bool = false) -> Answer {
        if isAgain { willAsk = false }
        if let last, time - last < interval, !isLast {
            if willAsk { return .no }
            willAsk = true
            return .later(last + interval - time)
        }
        last = time
        return .now
    }
}
