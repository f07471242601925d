import Foundation

/// The verdicts of the validations of calls on an answer. A validation of a call's own is the program's code, which is asked
/// elsewhere; all others are asked here.
struct Verdicts: Sendable {
    /// The errors of the calls with a validation of their own that has been asked; `nil` for an answer that it accepts.
    fileprivate var own: [ObjectIdentifier: DipperError?] = [:]

    /// Returns whether a call accepts a stored answer. A call that came while others were asked does not yet.
    func accepts(_ value: StoredData, for call: Call) -> Bool {
        guard call.hasOwnValidation else { return call.accepts(value) }
        guard let error = own[ObjectIdentifier(call)] else { return false }
        return error == nil
    }

    func use(of value: StoredData, for call: Call, at now: TimeInterval) -> StoredUse {
        accepts(value, for: call) && call.cachePolicy != .bypass ? call.use(of: value.info, at: now) : .revalidate
    }

    func isAnswered(_ call: Call, by value: StoredData, at now: TimeInterval) -> Bool {
        switch use(of: value, for: call, at: now) {
        case .fresh, .stale, .staleWhileRevalidating: true
        case .revalidate:
            call.cachePolicy == .cacheOnly && value.info.isChosen(by: call.request.headers)
                && accepts(value, for: call)
                && StoredAnswer(value.info).mayServeDisconnected(for: call.request.headers)
        }
    }

    /// Returns whether a stored answer stands in for a call when the network has failed.
    func isAnsweredAllTheSame(_ call: Call, by value: StoredData, isOffline: Bool, at now: TimeInterval) -> Bool {
        guard !call.insistsOnNetwork, value.info.isChosen(by: call.request.headers), accepts(value, for: call) else {
            return false
        }
        let answer = StoredAnswer(value.info)
        return isOffline
            ? answer.mayServeDisconnected(for: call.request.headers)
            : answer.mayServeOnError(for: call.request.headers, at: now)
    }

    /// Whether all calls that judge an answer of the network themselves have been asked.
    func areOfAll(_ calls: some Sequence<Call>) -> Bool {
        calls.allSatisfy { !$0.judgesAnswers || own[ObjectIdentifier($0)] != nil }
    }

    /// Returns the reason why a call refuses an answer of the network.
    func refusal(of response: TransferResponse, by call: Call) -> DipperError? {
        guard call.judgesAnswers else { return call.request.validation.check(response) }
        return own[ObjectIdentifier(call)] ?? nil
    }
}

extension Engine {
    /// Asks the validations of calls about a stored answer, and goes on: at once if none is a call's own.
    func judge(
        _ value: StoredData, for calls: some Sequence<Call>,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        let answer = TransferResponse(status: value.info.status, headers: value.info.headers, body: value.data)
        ask(calls.filter(\.hasOwnValidation), { $0.request.validation.check(answer) }, then: goOn)
    }

    /// Asks calls about an answer of the network, and goes on: at once if none judges it itself.
    func judge(
        _ answer: TransferResponse, for calls: some Sequence<Call>,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        ask(calls.filter(\.judgesAnswers), { $0.refusal(of: answer) }, then: goOn)
    }

    private func ask(
        _ calls: [Call], _ judge: @escaping @Sendable (Call) -> DipperError?,
        then goOn: @escaping @Sendable (isolated Engine, Verdicts) -> Void
    ) {
        if calls.isEmpty { return goOn(self, Verdicts()) }
        work {
            var verdicts = Verdicts()
            for call in calls { verdicts.own.updateValue(judge(call), forKey: ObjectIdentifier(call)) }
            return verdicts
        } then: { engine, verdicts in
            goOn(engine, verdicts)
        }
    }
}
