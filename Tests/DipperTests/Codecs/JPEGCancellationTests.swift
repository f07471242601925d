import Dipper
import Foundation
import Synchronization
import Testing

@Suite("A JPEG decode can be cancelled between rows", .timeLimit(.minutes(5))) struct JPEGCancellationTests {
    @Test("at any question, in one scan or several", arguments: ["large", "large-progressive", "cmyk-profile"])
    func cancelled(_ name: String) throws {
        let data = try Pictures.data("jpeg/\(name).jpg")
        func decode(cancelledAt limit: Int) throws(DipperError) -> Int {
            let questions = Counter()
            var options = DecodeOptions()
            options.isCancelled = { questions.next() >= limit }
            _ = try JPEGDecoder().decode(data, options)
            return questions.count
        }
        let all = try decode(cancelledAt: .max)
        // Sixteen rows for each question; and for several scans, sixteen rows of blocks of each scan besides.
        #expect(all > (name == "large" ? 18 : name == "cmyk-profile" ? 3 : 25))
        for limit in 0..<all {
            #expect(throws: DipperError.cancelled) { try decode(cancelledAt: limit) }
        }
    }
}

private final class Counter: Sendable {
    private let value = Mutex(0)

    var count: Int { value.withLock { $0 } }

    /// The number before.
    func next() -> Int {
        value.withLock {
            $0 += 1
            return $0 - 1
        }
    }
}
