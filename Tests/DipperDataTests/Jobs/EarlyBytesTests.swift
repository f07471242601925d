import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Bytes that come before the transfer is known", .timeLimit(.minutes(5)))
struct EarlyBytesTests {
    /// A transport whose transfers bring bytes before they have been returned.
    private struct EarlyTransport: Transport {
        private struct Begun: Transfer {
            let bytes: Data
            let receive: @Sendable (TransferEvent) -> Void

            func cancel() { receive(.finished(.failure(.cancelled))) }
            func setThrottled(_ isThrottled: Bool) {}
            func setQueue(_ queue: FetchQueue) {}
            func copyBody(_ reply: @escaping @Sendable (_ bytes: Data, _ offset: Int) -> Void) { reply(bytes, 0) }
        }

        let bytes: Data

        func start(
            _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
        ) -> any Transfer {
            receive(.progress(received: bytes.count, expected: 2 * bytes.count))
            return Begun(bytes: bytes, receive: receive)
        }

        func shutdown() async {}
    }

    @Test("they are shown as soon as it is, without waiting for the next interval")
    func shown() async throws {
        let bytes = Data("beginning".utf8)
        let test = TestCache { $0.transport = EarlyTransport(bytes: bytes) }
        // The call listens before its transfer begins: a reservation holds prefetches back.
        let shown = Box<[Data]>([])
        let reservation = FastReservation(test.cache.engine)
        let task = test.cache.slowGetData(url("early"))
        task.onBytes { bytes in shown.update { $0.append(bytes) } }
        reservation.release()
        // The clock stands still, so that nothing that is put off comes.
        #expect(await settle { shown.value == [bytes] })
        task.cancel()
        await test.cache.shutdown()
    }
}
