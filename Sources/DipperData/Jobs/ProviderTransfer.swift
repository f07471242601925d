import Foundation
import Synchronization

/// A transfer whose bytes come from a ``DataProvider``.
final class ProviderTransfer: Transfer {
    private struct State {
        var task: Task<Void, Never>?
        /// The receiver of the end; `nil` once it has been told.
        var receive: (@Sendable (TransferEvent) -> Void)?
    }

    private let state: Mutex<State>

    init(_ provider: any DataProvider, receive: @escaping @Sendable (TransferEvent) -> Void) {
        state = Mutex(State(receive: receive))
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
        state.withLock { $0.task = task }
    }

    func cancel() {
        state.withLock { $0.task }?.cancel()
        end(.failure(.cancelled))
    }

    func setThrottled(_ isThrottled: Bool) {}
    func setQueue(_ queue: FetchQueue) {}

    private func end(_ result: Result<TransferResponse, DipperError>) {
        let receive = state.withLock { exchange(&$0.receive, with: nil) }
        receive?(.finished(result))
    }
}
