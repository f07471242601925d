import Foundation

/// The answer of the program on how to speak TLS with an origin, once for the life of the engine.
enum TLSQuestion {
    /// The program has been asked; these go on with its answer.
    case asked([@Sendable (isolated Engine, Result<TLSAnswer?, DipperError>) -> Void])
    case answered(Result<TLSAnswer?, DipperError>)
}

/// The questions to the program about credentials and trust. Its code may wait for something, so it does not run on the
/// loop.
extension Engine {
    /// Asks for other credentials, for the server or the proxy, and sends the request again with them.
    /// - Parameter outcome: what counts if there are none.
    func answerChallenge(
        _ fetch: Fetch, _ run: Run, _ demand: String, isOfProxy: Bool,
        orElse outcome: Result<TransferResponse, DipperError>
    ) {
        let proxy = isOfProxy ? run.attempt.proxy : nil
        let credentials = isOfProxy ? proxy?.credentials : fetch.sources.lead.request.hooks.credentials
        let challenge = Credentials.Challenge(url: proxy?.url ?? run.attempt.url, demand: demand)
        run.number = wait(for: fetch)
        Task.detached { [number = run.number] in
            let authorization = await credentials?.field(challenge)
            self.post { engine in
                guard let fetch = engine.awaiting.removeValue(forKey: number), let run = fetch.run else { return }
                if run.attempt.answerChallenge(authorization, isOfProxy: isOfProxy) { return engine.send(fetch) }
                switch outcome {
                case .success(let response): engine.answered(fetch, run, response)
                case .failure(let error): engine.failed(fetch, error)
                }
            }
        }
    }

    /// Goes on with the program's answer on an origin: at once if there is one.
    func answerTLSChallenge(
        of origin: ServerOrigin, at url: URL,
        then goOn: @escaping @Sendable (isolated Engine, Result<TLSAnswer?, DipperError>) -> Void
    ) {
        switch tlsAnswers[origin] {
        case .answered(let answer)?: goOn(self, answer)
        case .asked(let waiting)?: tlsAnswers[origin] = .asked(waiting + [goOn])
        case nil:
            tlsAnswers[origin] = .asked([goOn])
            Task.detached { [ask = options.answerTLSChallenge] in
                let answer: Result<TLSAnswer?, DipperError>
                do {
                    answer = .success(try await ask?(url.ofOrigin ?? url))
                } catch {
                    answer = .failure(DipperError(error, as: .tlsRejected))
                }
                self.post { $0.decided(answer, on: origin) }
            }
        }
    }

    private func decided(_ answer: Result<TLSAnswer?, DipperError>, on origin: ServerOrigin) {
        guard case .asked(let waiting)? = tlsAnswers.removeValue(forKey: origin) else { return }
        // An error that may pass decides nothing.
        let isDecided = if case .failure(let error) = answer { !error.mayPass && !error.isCancelled } else { true }
        if isDecided { tlsAnswers[origin] = .answered(answer) }
        for goOn in waiting { goOn(self, answer) }
    }
}
