import Foundation
import TestSupport
import Testing

@testable import DipperData

@Suite("Bytes that are looked at while they come", .timeLimit(.minutes(5)))
struct SharedBytesTests {
    private func place(_ data: Data) -> UInt { data.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }

    private func append(_ bytes: [UInt8], to buffer: inout ByteBuffer) {
        let isTaken = bytes.withUnsafeBytes { buffer.append($0) }
        #expect(isTaken)
    }

    @Test("looking at a body copies nothing")
    func shared() {
        var buffer = ByteBuffer()
        let hasRoom = buffer.reserve(1_000_000)
        #expect(hasRoom)
        append(Array(repeating: 1, count: 1_000), to: &buffer)
        let first = buffer.snapshot()
        append(Array(repeating: 2, count: 1_000), to: &buffer)
        let second = buffer.snapshot()
        #expect(place(first) == place(second))
        #expect(first == Data(repeating: 1, count: 1_000))
        #expect(second == first + Data(repeating: 2, count: 1_000))
    }

    @Test("a body that outgrows its memory leaves those who look at it what they have")
    func growing() {
        var buffer = ByteBuffer()
        append(Array(repeating: 1, count: 1_000), to: &buffer)
        let snapshots = (0..<6).map { _ in
            let snapshot = buffer.snapshot()
            append(Array(repeating: 7, count: 100_000), to: &buffer)
            return snapshot
        }
        let whole = Data(repeating: 1, count: 1_000) + Data(repeating: 7, count: 600_000)
        for (number, snapshot) in snapshots.enumerated() { #expect(snapshot == whole.prefix(1_000 + number * 100_000)) }
        let data = buffer.takeData()
        #expect(data == whole)
        let (count, rest) = (buffer.count, buffer.takeData())
        #expect(count == 0 && rest?.isEmpty == true)
    }

    @Test("what is handed over at the end can be changed without a change to what was shown")
    func handedOver() throws {
        var buffer = ByteBuffer()
        append(Array(repeating: 1, count: 5_000), to: &buffer)
        let shown = buffer.snapshot()
        let taken = buffer.takeData()
        var data = try #require(taken)
        data[0] = 9
        #expect(shown == Data(repeating: 1, count: 5_000))
        // With nobody looking the memory itself is handed over.
        append(Array(repeating: 3, count: 5_000), to: &buffer)
        let place = place(buffer.snapshot())
        let handed = buffer.takeData()
        #expect(try self.place(#require(handed)) == place)
    }

    @Test("a body for which the system has no memory is refused, and what has come of it stays")
    func refused() async {
        // In a process of its own, which is left without memory.
        await #expect(processExitsWith: .success) {
            var buffer = ByteBuffer()
            let piece = [UInt8](repeating: 1, count: 1 << 20)
            var isTaken = piece.withUnsafeBytes { buffer.append($0) }
            let hasRoom = [Int.max, .max / 2, 1 << 60].map { buffer.reserve($0) }
            #expect(isTaken && hasRoom == [false, false, false])
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            let pages = try #require(
                String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ").first.flatMap {
                    Int($0)
                })
            limit.rlim_cur = rlim_t(pages * 4096 + (100 << 20))
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            while isTaken, buffer.count < 1 << 30 { isTaken = piece.withUnsafeBytes { buffer.append($0) } }
            let count = buffer.count
            // To be copied, because somebody looks at it.
            let shown = buffer.snapshot()
            let data = buffer.takeData()
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
            #expect(!isTaken && data == nil && buffer.count == 0)
            #expect(count > 16 << 20 && shown.count == count && shown.last == 1)
        }
    }

    @Test("large bodies go back to the system when they are freed, whatever lies behind them")
    func givenBack() async {
        // In a process of its own, whose memory is its own as well.
        await #expect(processExitsWith: .success) {
            func resident() throws -> Int {
                let fields = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
                return try #require(Int(fields[1])) * Int(sysconf(Int32(_SC_PAGESIZE)))
            }
            // Teaches glibc to serve this size from its heap.
            for _ in 0..<3 { free(malloc(30 << 20)) }
            let piece = [UInt8](repeating: 1, count: 16 << 10)
            var (bodies, small): ([Data], [UnsafeMutableRawPointer?]) = ([], [])
            let before = try resident()
            for _ in 0..<20 {
                var buffer = ByteBuffer()
                while buffer.count < 10 << 20 { _ = piece.withUnsafeBytes { buffer.append($0) } }
                let body = buffer.takeData()
                bodies.append(try #require(body))
                small.append(malloc(2_000))
            }
            let full = try resident()
            #expect(full - before >= 200 << 20)
            let places = bodies.map { $0.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } }
            bodies = []
            #expect(try resident() - before < 20 << 20)
            // Nothing is mapped there any more.
            for place in places {
                var state: UInt8 = 0
                errno = 0
                #expect(mincore(UnsafeMutableRawPointer(bitPattern: place), 1, &state) == -1 && errno == ENOMEM)
            }
            for place in small { free(place) }
        }
    }

    @Test("memory keeps its bytes as it grows and shrinks, from malloc to mappings and back")
    func resized() throws {
        guard var memory = BufferMemory(100) else { throw DipperError.tooLarge }
        func fill(_ count: Int) {
            for place in 0..<count {
                memory.start.storeBytes(of: UInt8(place % 251), toByteOffset: place, as: UInt8.self)
            }
        }
        func holds(_ count: Int) -> Bool {
            (0..<count).allSatisfy { memory.start.load(fromByteOffset: $0, as: UInt8.self) == UInt8($0 % 251) }
        }
        fill(100)
        var count = 100
        for size in [5_000, BufferMemory.smallestMapped - 1, BufferMemory.smallestMapped, 1 << 20, 300_000, 70_000, 64]
        {
            let isResized = memory.resize(size, keeping: count)
            #expect(isResized && memory.capacity >= size && memory.capacity < size + 65_536)
            #expect(holds(min(count, size)), "\(size)")
            fill(size)
            count = size
        }
        let isRefused = !memory.resize(.max, keeping: count)
        #expect(isRefused && holds(count))
    }

    @Test("of a body that is continued only what is new is copied")
    func joined() throws {
        let body = JoinedBody(Data(repeating: 1, count: 100_000))
        let first = try #require(body.joined(Data(repeating: 2, count: 10)))
        #expect(first == Data(repeating: 1, count: 100_000) + Data(repeating: 2, count: 10))
        let second = try #require(body.joined(Data(repeating: 2, count: 500)))
        let third = try #require(body.joined(Data(repeating: 2, count: 600)))
        #expect(place(second) == place(third))
        #expect(third == Data(repeating: 1, count: 100_000) + Data(repeating: 2, count: 600))
    }
}
