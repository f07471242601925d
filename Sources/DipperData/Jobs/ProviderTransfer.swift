import Foundation
import Synchronization

/// A transfer whose bytes come from a ``DataProvider``.
final class ProviderTransfer: Transfer {
    private let task = Mutex<Task<Void, Never>?>(nil)
    private let receive: Mutex<(@Sendable (TransferEvent) -> Void)?>

    init(_ provider: any DataProvider, receive: @escaping @Sendable (TransferEvent) -> Void) {
        self.receive = Mutex(receive)
        let task = Task { [weak self] in
            let result: Result<TransferResponse, DipperError>
            do {
                result = .success(TransferResponse(body: try await provider.data()))
            } catch let error as DipperError {
                result = .failure(error)
            } catch is CancellationError {
                result = .failure(.cancelled)
            } catch {
                result = .failure(.unreadable.with(detail: "\(error)"))
            }
            self?.end(result)
        }
        self.task.withLock { $0 = task }
    }

    func cancel() {
        task.withLock { $0 }?.cancel()
        end(.failure(.cancelled))
    }

    func setThrottled(_ isThrottled: Bool) {}
    func setQueue(_ queue: FetchQueue) {}

    private func end(_ result: Result<TransferResponse, DipperError>) {
        let receive = receive.withLock { exchange(&$0, with: nil) }
        receive?(.finished(result))
    }
}
