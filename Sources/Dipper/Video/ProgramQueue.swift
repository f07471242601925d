import DipperData
import Foundation
import ProcessShims
import Synchronization

/// Runs a few programs at once, each watched by a thread of its own.
final class ProgramQueue: Sendable {
    /// Runs a program until it ends, or until `wakeup` becomes readable because nobody waits any more.
    typealias Body = @Sendable (_ wakeup: borrowing OwnedDescriptor) throws(DipperError) -> Data

    /// For work that runs a program and waits for it.
    let threads: Workers

    init(name: String, programs: Int) {
        threads = Workers(name: name, threads: programs)
    }

    /// Ends early, with `DipperError.cancelled`, when the Swift task is cancelled.
    func run(_ body: @escaping Body) async throws(DipperError) -> Data {
        let ticket = Ticket(body)
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if ticket.wait(continuation) { threads.run { ticket.run() } }
            }
        } onCancel: {
            ticket.cancel()
        }
        return try result.get()
    }

    /// One call, which can be cancelled at any time.
    private final class Ticket: Sendable {
        typealias Waiter = CheckedContinuation<Result<Data, DipperError>, Never>

        private enum State {
            case new
            case waiting(Waiter)
            /// An event on the descriptor `wakeup` ends the run.
            case running(Waiter, wakeup: Int32)
            case ended
        }

        private let body: Body
        private let state = Mutex(State.new)

        init(_ body: @escaping Body) { self.body = body }

        /// Returns `false` if the call has been cancelled already.
        func wait(_ waiter: Waiter) -> Bool {
            let waits = state.withLock { state in
                guard case .new = state else { return false }
                state = .waiting(waiter)
                return true
            }
            if !waits { waiter.resume(returning: .failure(.cancelled)) }
            return waits
        }

        func cancel() {
            let waiter = state.withLock { state -> Waiter? in
                switch state {
                case .running(_, let wakeup):
                    // The thread that runs the program resumes the waiter when the program has ended.
                    var one: UInt64 = 1
                    write(wakeup, &one, 8)
                    return nil
                case .waiting(let waiter):
                    state = .ended
                    return waiter
                case .new:
                    state = .ended
                    return nil
                case .ended: return nil
                }
            }
            waiter?.resume(returning: .failure(.cancelled))
        }

        func run() {
            do throws(DipperError) {
                let wakeup = try OwnedDescriptor(dipper_event(), for: "an event")
                guard begin(wakeup.number) else { return }
                do throws(DipperError) {
                    end(.success(try body(wakeup)))
                } catch {
                    end(.failure(error))
                }
                // After the end of the call, `cancel()` no longer writes to the descriptor.
                wakeup.end()
            } catch {
                end(.failure(error))
            }
        }

        private func begin(_ wakeup: Int32) -> Bool {
            state.withLock { state in
                guard case .waiting(let waiter) = state else { return false }
                state = .running(waiter, wakeup: wakeup)
                return true
            }
        }

        private func end(_ result: Result<Data, DipperError>) {
            let waiter = state.withLock { state -> Waiter? in
                defer { state = .ended }
                return switch state {
                case .waiting(let waiter), .running(let waiter, _): waiter
                case .new, .ended: nil
                }
            }
            waiter?.resume(returning: result)
        }
    }
}
