import Foundation
import Testing

@testable import DipperData

@Suite("Numbers from outside, and questions to the kernel", .timeLimit(.minutes(1)))
struct OutsideNumberTests {
    @Test("a range with the largest numbers is malformed, so that sums of its numbers fit")
    func ranges() {
        #expect(ContentRange("bytes 0-\(Int.max)/*") == nil)
        #expect(ContentRange("bytes 0-1/\(Int.max)") == nil)
        #expect(ContentRange("bytes 0-\(1 << 59)/*")?.last == 1 << 59)
    }

    @Test("a clock in the far future reads a date with a two-digit year, or none")
    func dates() {
        for now in [1e12, 1e20, 1e26, .infinity, -1e26] {
            let date = HTTPDate.seconds("Sunday, 06-Nov-94 08:49:37 GMT", now: now)
            #expect(date?.isFinite != false)
        }
    }

    @Test("the longest steps of a retry policy fit, however many failures there are")
    func retries() {
        let longest = Duration.seconds(Int64.max)
        for policy in [RetryPolicy.accumulated(longest, retries: nil), .exponential(base: longest, retries: nil)] {
            var policy = policy
            policy.deadline = nil
            for failures in [1, 50, .max] {
                let context = RetryPolicy.Context(failures: failures, error: .timedOut, elapsed: .zero)
                #expect(policy.delay(after: context, answer: nil, unit: 1) != nil)
            }
        }
    }

    @Test("a question that the kernel does not answer fails at once")
    func silentKernel() throws {
        let netlink = try Netlink()
        #expect(fcntl(netlink.descriptor, F_GETFL) & O_NONBLOCK != 0)
        // NLMSG_NOOP.
        #expect(throws: NetlinkError.self) { try netlink.ask(1, UInt32(0)) { _ in } }
    }
}
