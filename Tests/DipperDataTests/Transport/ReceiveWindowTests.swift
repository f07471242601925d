import Foundation
import Testing

@testable import DipperData

@Suite("The receive window of slow transfers", .timeLimit(.minutes(5)))
struct ReceiveWindowTests {
    /// A sender that sends one window per round trip, as far as the bandwidth of the link allows.
    private struct Path {
        var roundTrip: Double
        /// The bandwidth of the link, in bytes a second.
        var rate: Double
        /// How much of what the buffer is asked for the kernel lets the sender have.
        var share = 1.2

        /// Returns the sizes of the window after each tenth of a round trip.
        func run(_ window: inout ReceiveWindow, for seconds: Double) -> [Int] {
            var sizes: [Int] = []
            var bytes = 0.0
            let step = roundTrip / 10
            for tick in 0..<Int(seconds / step) {
                let allowed = Double(window.size) * share
                bytes += min(rate, allowed / roundTrip) * step
                _ = window.measure(
                    time: Double(tick) * step, bytes: Int(bytes), roundTrip: roundTrip, window: Int(allowed))
                sizes.append(window.size)
            }
            return sizes
        }
    }

    @Test("it stays where the link is the limit")
    func linkIsLimit() {
        var window = ReceiveWindow()
        let sizes = Path(roundTrip: 0.05, rate: 2_400_000).run(&window, for: 60)
        #expect(Set(sizes) == [ReceiveWindow.smallest])
    }

    @Test("it grows while that makes the transfer faster, and not much further", arguments: [10e6, 25e6, 100e6])
    func growth(rate: Double) {
        var window = ReceiveWindow()
        let path = Path(roundTrip: 0.04, rate: rate)
        let sizes = path.run(&window, for: 4)
        let needed = Int(rate * path.roundTrip)
        #expect(Double(window.size) * path.share >= Double(needed) * 0.9, "fast enough within seconds")
        #expect(sizes.max()! <= 4 * needed, "and no more than a probe beyond it")
        #expect(window.size <= 2 * needed)
    }

    @Test("growth that brings nothing is taken back, and not tried again for a while")
    func inVain() {
        // The path takes more under way, and carries no more.
        var window = ReceiveWindow()
        let path = Path(roundTrip: 0.05, rate: 2_400_000, share: 0.9)
        let sizes = path.run(&window, for: 4)
        #expect(sizes.contains(ReceiveWindow.smallest * 2))
        #expect(window.size == ReceiveWindow.smallest)
        #expect(sizes.filter { $0 > ReceiveWindow.smallest }.count < sizes.count / 4)
    }

    @Test("what was measured before a pause does not count")
    func pause() {
        var window = ReceiveWindow()
        func measure(_ time: Double, _ bytes: Int) -> Int? {
            let size = window.size
            return window.measure(time: time, bytes: bytes, roundTrip: 0.05, window: size)
        }
        #expect(measure(0, 0) == nil)
        window.interrupt()
        // Alone, this would be a window each round trip.
        #expect(measure(0.1, 262_144) == nil)
        #expect(measure(0.2, 524_288) == ReceiveWindow.smallest * 2)
    }

    @Test("a socket's buffer is fixed, and left to the kernel again")
    func buffer() throws {
        let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(socket) }
        func option(_ name: Int32) -> Int32 {
            var value: Int32 = -1
            var length = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(socket, SOL_SOCKET, name, &value, &length) == 0 ? value : -1
        }
        let sockets = CurlSockets()
        sockets.add(socket)
        sockets.limit(socket, to: ReceiveWindow.smallest)
        // The kernel takes as much again for its own purposes.
        #expect(option(SO_RCVBUF) == Int32(ReceiveWindow.smallest * 2))
        let bufferLock: Int32 = 72
        let isLocked = option(bufferLock)
        sockets.unlimit(socket)
        if isLocked == -1 {
            #expect(option(SO_RCVBUF) >= Int32(ReceiveWindow.smallest * 2), "a kernel before 5.14")
        } else {
            #expect(isLocked & 2 == 2 && option(bufferLock) & 2 == 0)
        }
    }
}
