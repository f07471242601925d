import DipperData
import Foundation

/// A transport that answers as a test says, and remembers the requests.
///
/// A script answers the requests for its URL at once, one step per attempt. A request for a URL without a script waits
/// until the test answers it by hand; see ``nextTransfer(within:)``. A step of a script reports no progress: for
/// progress, answer by hand with ``ScriptedTransfer/send(progress:of:)``.
///
/// ```swift
/// let transport = ScriptedTransport()
/// transport.script(url, [.status(503), .body(Data("here".utf8))])
/// var configuration = DataCache.Configuration()
/// configuration.transport = transport
/// configuration.networkMonitor = ManualNetwork()
/// let cache = DataCache(configuration)
/// let data = try await cache.getData(url).value       // the answer of the second attempt
/// ```
public final class ScriptedTransport: Transport {
    /// The outcome of one attempt.
    public enum Step: Sendable {
        /// An answer with status 200 and this body.
        case body(Data)
        /// An answer with this status, these header fields and an empty body.
        case status(Int, HTTPHeaders)
        /// A complete answer.
        case response(TransferResponse)
        /// An error instead of an answer.
        case failure(DipperError)
        /// An answer that is broken off after the given part of its body, with the error.
        case interrupted(TransferResponse, DipperError)
        /// No answer: the transfer ends when it is cancelled.
        case silence

        /// An answer with this status, no header fields and an empty body.
        public static func status(_ status: Int) -> Step { .status(status, [:]) }
    }

    private struct State {
        var scripts: [URL: [Step]] = [:]
        var transfers: [ScriptedTransfer] = []
        /// The transfers without a script that the test has not taken yet.
        var open: [ScriptedTransfer] = []
        var isShutDown = false

        func missing(_ what: String) -> String {
            let urls = transfers.suffix(8).map(\.request.url.absoluteString).joined(separator: ", ")
            return
                "\(what); \(transfers.count) transfers so far\(urls.isEmpty ? "" : ": " + urls); \(WaitTimeout.standstill)"
        }
    }

    private let state = WatchedState(State())

    /// Creates a transport without scripts.
    public init() {}

    /// Sets the outcomes of the attempts for a URL, one after the other. The last step holds for all further attempts.
    public func script(_ url: URL, _ steps: [Step]) {
        state.update { $0.scripts[url] = steps }
    }

    /// All transfers so far, in the order of their start.
    public var transfers: [ScriptedTransfer] { state.value.transfers }

    /// Returns the transfers of one URL.
    public func transfers(of url: URL) -> [ScriptedTransfer] { transfers.filter { $0.request.url == url } }

    /// Returns the next transfer without a script, and waits for one if there is none.
    public func nextTransfer(within limit: Duration = WaitTimeout.standard) async throws
        -> ScriptedTransfer
    {
        while true {
            if let next = state.update({ $0.open.isEmpty ? nil : $0.open.removeFirst() }) { return next }
            try await state.wait(within: limit, until: { !$0.open.isEmpty }) { $0.missing("no transfer began") }
        }
    }

    /// Returns as soon as at least `count` transfers have begun, scripted or not, of one URL or, with `nil`, of all.
    public func waitForTransfers(
        _ count: Int, of url: URL? = nil, within limit: Duration = WaitTimeout.standard
    ) async throws {
        try await state.wait(
            within: limit,
            until: { state in
                state.transfers.count { url == nil || $0.request.url == url } >= count
            }
        ) { $0.missing("fewer than \(count) transfers began") }
    }

    public func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        let transfer = ScriptedTransfer(request, receive: receive)
        let (step, isShutDown) = state.update { state -> (Step?, Bool) in
            if state.isShutDown { return (nil, true) }
            state.transfers.append(transfer)
            if let steps = state.scripts[request.url], let step = steps.first {
                if steps.count > 1 { state.scripts[request.url] = Array(steps.dropFirst()) }
                return (step, false)
            }
            state.open.append(transfer)
            return (nil, false)
        }
        if isShutDown { transfer.fail(with: .shutDown) }
        if let step { transfer.meet(step) }
        return transfer
    }

    public func shutdown() async {
        let transfers = state.update { state in
            state.isShutDown = true
            return state.transfers
        }
        for transfer in transfers { transfer.cancel() }
    }
}

/// A transfer that a test controls.
///
/// ```swift
/// let transfer = try await transport.nextTransfer()
/// print(transfer.request.headers["Accept"] ?? "any", transfer.queue, transfer.isThrottled)
/// transfer.send(progress: 2, of: 4)
/// transfer.finish(with: Data("here".utf8), headers: ["ETag": "\"1\""])
/// ```
public final class ScriptedTransfer: Transfer {
    private struct State {
        var status: Status
        var isOver = false
        var held: TransferResponse?
    }

    /// The request of the transfer.
    public let request: TransferRequest
    private let receive: @Sendable (TransferEvent) -> Void
    private let state: WatchedState<State>

    init(_ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void) {
        self.request = request
        self.receive = receive
        let status = Status(isThrottled: request.isThrottled, queue: request.queue, isCancelled: false)
        state = WatchedState(State(status: status))
    }

    /// Whether the cache holds the transfer back now.
    public var isThrottled: Bool { state.value.status.isThrottled }
    /// The queue in which the transfer counts now.
    public var queue: FetchQueue { state.value.status.queue }
    /// Whether the cache has cancelled the transfer.
    public var isCancelled: Bool { state.value.status.isCancelled }

    // MARK: Test interface

    /// Returns as soon as the transfer meets a condition.
    public func wait(
        within limit: Duration = WaitTimeout.standard, until isMet: @escaping @Sendable (Status) -> Bool
    ) async throws {
        let url = request.url
        try await state.wait(within: limit, until: { isMet($0.status) }) {
            "the transfer of \(url) stayed as it is: \($0.status)"
        }
    }

    /// The state of a transfer, as the cache sets it.
    public struct Status: Sendable {
        /// Whether the cache holds the transfer back.
        public var isThrottled: Bool
        /// The queue in which the transfer counts.
        public var queue: FetchQueue
        /// Whether the cache has cancelled the transfer.
        public var isCancelled: Bool
    }

    /// Reports the number of bytes received so far, including those of the request's offset, and the length of the
    /// body; `nil` for a length that the server does not announce. The report has no bytes: see ``hold(_:)``.
    public func send(progress received: Int, of expected: Int?) {
        receive(.progress(received: received, expected: expected))
    }

    /// Reports an answer before the final one.
    public func send(interim response: InterimResponse) { receive(.interim(response)) }

    /// Ends the transfer with an answer.
    public func finish(
        with body: Data, status: Int = 200, headers: HTTPHeaders = [:], metrics: TransferMetrics = TransferMetrics()
    ) {
        end(.success(TransferResponse(status: status, headers: headers, body: body, metrics: metrics)))
    }

    /// Ends the transfer with an error.
    public func fail(with error: DipperError) { end(.failure(error)) }

    /// Ends the transfer with an error after the given part of the answer. Without effect on a transfer that has ended.
    public func interrupt(with response: TransferResponse, error: DipperError = .connectionLost) {
        guard endsNow() else { return }
        receive(.interrupted(response))
        receive(.finished(.failure(error)))
    }

    /// Sets the part of the answer that the transfer has received so far, and reports it. The transfer reports that part
    /// once more before its end when the cache cancels it, and shows it to the cache for previews.
    ///
    /// ```swift
    /// transfer.hold(TransferResponse(headers: ["ETag": "\"1\"", "Content-Length": "4"], body: Data("he".utf8)))
    /// task.cancel()       // the transfer reports the two bytes before its end
    /// ```
    public func hold(_ response: TransferResponse) {
        let isOver = state.update { state in
            state.held = response
            return state.isOver
        }
        if !isOver { receive(.partial(response)) }
    }

    func meet(_ step: ScriptedTransport.Step) {
        switch step {
        case .body(let body): finish(with: body)
        case .status(let status, let headers): finish(with: Data(), status: status, headers: headers)
        case .response(let response): end(.success(response))
        case .failure(let error): fail(with: error)
        case .interrupted(let response, let error): interrupt(with: response, error: error)
        case .silence: break
        }
    }

    private func end(_ result: Result<TransferResponse, DipperError>) {
        if endsNow() { receive(.finished(result)) }
    }

    private func endsNow() -> Bool { state.update { !exchange(&$0.isOver, with: true) } }

    // MARK: Transfer interface

    public func cancel() {
        let held = state.update { state in
            state.status.isCancelled = true
            return state.held
        }
        if let held { interrupt(with: held, error: .cancelled) } else { fail(with: .cancelled) }
    }

    public func setThrottled(_ isThrottled: Bool) { state.update { $0.status.isThrottled = isThrottled } }
    public func setQueue(_ queue: FetchQueue) { state.update { $0.status.queue = queue } }
    public func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void) {
        let held = state.update { $0.isOver ? nil : $0.held }
        if let held { reply(held.body, held.status == 206 ? request.offset : 0) }
    }
}
