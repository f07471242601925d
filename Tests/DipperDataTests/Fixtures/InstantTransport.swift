import Foundation

@testable import DipperData

/// Answers before it has handed its transfer out, which holds what it was given as libcurl's does.
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
