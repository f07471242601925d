import Foundation

/// The validations of calls, asked about an answer. Those of the program run elsewhere, all others on the loop.
struct Verdicts: Sendable {
    /// With the calls, so that none of another call has the identity of one that is gone.
    fileprivate var own: [ObjectIdentifier: (call: Call, error: DipperError?)] = [:]

    /// A call with a validation of its own that joined after the question accepts nothing yet.
    func accepts(_ value: StoredData, for call: Call) -> Bool {
        guard call.hasOwnValidation else { return call.accepts(value) }
        guard let verdict = own[ObjectIdentifier(call)] else { return false }
        return verdict.error == nil
    }

    func use(of value: StoredData, for call: Call, at now: TimeInterval) -> StoredUse {
        accepts(value, for: call) ? call.use(ofAccepted: value.info, at: now) : .revalidate
    }

    func isAnswered(_ call: Call, by value: StoredData, at now: TimeInterval) -> Bool {
        accepts(value, for: call) && call.isAnswered(byAccepted: value.info, at: now)
    }

    func isAnsweredAllTheSame(
        _ call: Call, by value: StoredData, isOffline: Bool = false, isUnreached: Bool = false, at now: TimeInterval
    ) -> Bool {
        guard !call.insistsOnNetwork, value.info.isChosen(by: call.request.headers), accepts(value, for: call) else {
            return false
        }
        return call.answer(value.info).mayServeOnError(
            for: call.request.headers, at: now, isOffline: isOffline, isUnreached: isUnreached,
            limit: call.staleIfError?.timeInterval)
    }

    /// Whether the call has been asked, or need not be.
    func has(_ call: Call) -> Bool { !call.hasOwnValidation || own[ObjectIdentifier(call)] != nil }

    func unasked(_ calls: [Call]) -> [Call] { calls.filter { !has($0) } }

    func adding(_ others: Verdicts) -> Verdicts { Verdicts(own: own.merging(others.own) { $1 }) }

    func refusal(of response: TransferResponse, by call: Call) -> DipperError? {
        guard call.hasOwnValidation else { return call.request.validation.check(response) }
        return own[ObjectIdentifier(call)]?.error
    }
}

extension Engine {
    func judge(
        _ value: StoredData?, for calls: [Call],
        then goOn: @escaping @Loop (Verdicts) -> Void
    ) {
        guard let value else { return goOn(Verdicts()) }
        ask(calls.filter(\.hasOwnValidation), { $0.refusal(of: value) }, then: goOn)
    }

    func judge(
        _ answer: TransferResponse, for calls: [Call],
        then goOn: @escaping @Loop (Verdicts) -> Void
    ) {
        ask(calls.filter(\.hasOwnValidation), { $0.request.validation.check(answer) }, then: goOn)
    }

    private func ask(
        _ calls: [Call], _ judge: @escaping @Sendable (Call) -> DipperError?,
        then goOn: @escaping @Loop (Verdicts) -> Void
    ) {
        if calls.isEmpty { return goOn(Verdicts()) }
        work {
            var verdicts = Verdicts()
            for call in calls where verdicts.own[ObjectIdentifier(call)] == nil {
                verdicts.own[ObjectIdentifier(call)] = (call, judge(call))
            }
            return verdicts
        } then: { verdicts in
            goOn(verdicts)
        }
    }
}
