import Foundation

/// The question how to speak TLS with an origin. Its answer holds for a time.
enum TLSQuestion {
    case asked([(fetch: Fetch, goOn: @Loop (Result<TLSAnswer?, DipperError>) -> Void)])
    /// - Parameter use: grows with each use.
    case answered(Result<TLSAnswer?, DipperError>, at: Duration, use: UInt64)

    static let life = Duration.seconds(3_600)
    static let mostAnswers = 1_000
}

/// The program's code may wait for something, so it does not run on the loop.
extension Engine {
    func answerTLSChallenge(
        of origin: ServerOrigin, at url: URL, for fetch: Fetch,
        then goOn: @escaping @Loop (Result<TLSAnswer?, DipperError>) -> Void
    ) {
        switch tlsAnswers[origin] {
        case .answered(let answer, let moment, _)? where time.now() - moment < TLSQuestion.life:
            tlsAnswers[origin] = .answered(answer, at: moment, use: nextNumber())
            goOn(answer)
        case .asked(let waiting)?:
            tlsAnswers[origin] = .asked(waiting.filter { !$0.fetch.isOver } + [(fetch, goOn)])
        case .answered?, nil:
            tlsAnswers[origin] = .asked([(fetch, goOn)])
            runHook(of: nil) { [ask = options.answerTLSChallenge] in
                let answer = await Result(ofHook: .tlsRejected) { try await ask?(url.ofOrigin ?? url) }
                self.post { self.decided(answer, on: origin) }
            }
        }
    }

    private func decided(_ answer: Result<TLSAnswer?, DipperError>, on origin: ServerOrigin) {
        guard case .asked(let waiting)? = tlsAnswers.removeValue(forKey: origin) else { return }
        // An error that may pass decides nothing.
        let isDecided = if case .failure(let error) = answer { !error.mayPass && !error.isCancelled } else { true }
        if isDecided {
            if tlsAnswers.count >= TLSQuestion.mostAnswers { forgetOldestTLSAnswer() }
            tlsAnswers[origin] = .answered(answer, at: time.now(), use: nextNumber())
        }
        for waiter in waiting { waiter.goOn(answer) }
    }

    private func forgetOldestTLSAnswer() {
        var oldest: (origin: ServerOrigin, use: UInt64)?
        for case (let origin, .answered(_, _, let use)) in tlsAnswers where use < oldest?.use ?? .max {
            oldest = (origin, use)
        }
        if let oldest { tlsAnswers[oldest.origin] = nil }
    }
}
