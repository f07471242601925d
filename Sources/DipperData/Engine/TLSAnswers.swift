import Foundation

/// The program's answers to the question how to speak TLS with an origin. Each holds for a time.
@Loop
final class TLSAnswers {
    typealias Waiter = @Loop (Result<TLSAnswer?, DipperError>) -> Void

    private enum Entry {
        case asked([(fetch: Fetch, goOn: Waiter)])
        /// - Parameter use: grows with each use.
        case answered(Result<TLSAnswer?, DipperError>, at: Duration, use: UInt64)
    }

    private static let life = Duration.seconds(3_600)
    private static let most = 1_000

    private let ask: @Sendable (URL) async throws -> TLSAnswer?
    private var entries: [ServerOrigin: Entry] = [:]
    private var uses: UInt64 = 0

    nonisolated init(_ ask: @escaping @Sendable (URL) async throws -> TLSAnswer?) { self.ask = ask }

    func get(for origin: ServerOrigin, at url: URL, by fetch: Fetch, then goOn: @escaping Waiter) {
        let engine = fetch.engine
        switch entries[origin] {
        case .answered(let answer, let moment, _)? where engine.time.now() - moment < Self.life:
            uses += 1
            entries[origin] = .answered(answer, at: moment, use: uses)
            goOn(answer)
        case .asked(let waiting)?:
            entries[origin] = .asked(waiting.filter { !$0.fetch.isOver } + [(fetch, goOn)])
        case .answered?, nil:
            entries[origin] = .asked([(fetch, goOn)])
            engine.runHook(of: nil) { [ask] in
                let answer = await Result(ofHook: .tlsRejected) { try await ask(url.ofOrigin ?? url) }
                engine.post { self.answered(answer, for: origin, at: engine.time.now()) }
            }
        }
    }

    private func answered(_ answer: Result<TLSAnswer?, DipperError>, for origin: ServerOrigin, at now: Duration) {
        guard case .asked(let waiting)? = entries.removeValue(forKey: origin) else { return }
        // An error that may pass decides nothing.
        let isDecided = if case .failure(let error) = answer { !error.mayPass && !error.isCancelled } else { true }
        if isDecided {
            if entries.count >= Self.most { forgetOldest() }
            uses += 1
            entries[origin] = .answered(answer, at: now, use: uses)
        }
        for waiter in waiting { waiter.goOn(answer) }
    }

    private func forgetOldest() {
        var oldest: (origin: ServerOrigin, use: UInt64)?
        for case (let origin, .answered(_, _, let use)) in entries where use < oldest?.use ?? .max {
            oldest = (origin, use)
        }
        if let oldest { entries[oldest.origin] = nil }
    }
}
