import Foundation

@testable import DipperData

/// A transport that answers before `start` returns its transfer. The transfer retains the `receive` closure, as that of
/// libcurl does.
struct InstantTransport: Transport {
    struct Done: Transfer {
        let receive: @Sendable (TransferEvent) -> Void
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setQueue(_ queue: FetchQueue) {}
    }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        receive(.finished(.success(TransferResponse(body: Data("here".utf8)))))
        return Done(receive: receive)
    }

    func shutdown() async {}
}
