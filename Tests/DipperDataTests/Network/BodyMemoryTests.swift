import TestSupport
import Testing

@testable import DipperData

@Suite("The memory of bodies", .timeLimit(.minutes(1)))
struct BodyMemoryTests {
    private struct Run {
        let start: UnsafeMutableRawPointer
        let length: Int
        let mark: UInt8

        var isIntact: Bool {
            let bytes = UnsafeRawBufferPointer(start: start, count: length)
            return bytes.first == mark && bytes.last == mark && bytes[length / 2] == mark
        }
    }

    @Test("no two bodies share a byte, and what they leave is used again", arguments: [1, 2, 3] as [UInt64])
    func walk(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let chunks = PageChunks()
        var runs: [Run] = []
        var most = 0
        for step in 0..<20_000 {
            if runs.isEmpty || Int.random(in: 0..<600, using: &random) > runs.count {
                let length = Int.random(in: 1...PageChunks.largest / PageChunks.page, using: &random) * PageChunks.page
                let start = try #require(chunks.take(length))
                memset(start, Int32(step & 0xff), length)
                runs.append(Run(start: start, length: length, mark: UInt8(step & 0xff)))
            } else {
                let run = runs.remove(at: Int.random(in: 0..<runs.count, using: &random))
                #expect(run.isIntact)
                chunks.give(run.start, run.length)
            }
            most = max(most, runs.reduce(0) { $0 + $1.length })
        }
        #expect(chunks.size < 2 * most)
        for run in runs {
            #expect(run.isIntact)
            chunks.give(run.start, run.length)
        }
        #expect(chunks.size <= 5 * 2 << 20)
    }

    @Test("bodies that outlive their neighbours hold little memory")
    func survivors() throws {
        let chunks = PageChunks()
        let length = 5 * PageChunks.page
        var runs: [UnsafeMutableRawPointer] = []
        for _ in 0..<2_000 {
            let start = try #require(chunks.take(length))
            memset(start, 1, length)
            runs.append(start)
        }
        let full = chunks.size
        for (number, start) in runs.enumerated() where number % 50 != 0 { chunks.give(start, length) }
        let bases = Set(runs.map { UInt(bitPattern: $0) & ~UInt(2 << 20 - 1) })
        let resident = bases.reduce(0) { $0 + Self.resident(at: $1) }
        #expect(resident < full / 8)
        for _ in 0..<1_900 { _ = try #require(chunks.take(length)) }
        #expect(chunks.size <= full + 2 << 20)
    }

    @Test("a buffer keeps its bytes while it grows and shrinks from one kind of memory to another")
    func growing() throws {
        var buffer = ByteBuffer()
        var expected = Data()
        var snapshots: [Data] = []
        for (number, size) in [10, 3_000, 9_000, 70_000, 200_000, 600_000].enumerated() {
            let piece = Data(repeating: UInt8(number), count: size)
            Self.append(piece, to: &buffer)
            expected += piece
            if number.isMultiple(of: 2) { snapshots.append(buffer.snapshot()) }
        }
        for snapshot in snapshots { #expect(snapshot == expected.prefix(snapshot.count)) }
        let taken = buffer.takeData()
        #expect(taken == expected)
        for wanted in [100, 5_000, 100_000] {
            var roomy = ByteBuffer()
            let hasRoom = roomy.reserve(1 << 20)
            #expect(hasRoom)
            Self.append(expected.prefix(wanted), to: &roomy)
            let taken = roomy.takeData()
            #expect(taken == expected.prefix(wanted))
        }
    }

    @Test("a large file is read into a mapping of its own, a small one is not", arguments: [0, 1, 20, 9_000, 600_000])
    func read(_ size: Int) throws {
        let temporary = TemporaryFolder()
        let bytes = Data((0..<size).map { UInt8(truncatingIfNeeded: $0) })
        try bytes.write(to: temporary.url.appendingPathComponent("file"))
        let folder = try Folder(path: temporary.url.path)
        let reads = try [size, size + 1].map { try #require(try folder.readFile("file", atMost: $0)) }
        #expect(reads == [bytes, bytes])
        // A block of malloc may begin with a page by chance. Two blocks of this size, both there, do not.
        let areMapped = reads.allSatisfy { read in
            read.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) % UInt(PageChunks.page) == 0 }
        }
        #expect(size < 20 || areMapped == (size == 600_000))
    }

    private static func append(_ data: Data, to buffer: inout ByteBuffer) {
        let isAppended = data.withUnsafeBytes { buffer.append($0) }
        #expect(isAppended)
    }

    private static func resident(at base: UInt) -> Int {
        var states = [UInt8](repeating: 0, count: (2 << 20) / PageChunks.page)
        mincore(UnsafeMutableRawPointer(bitPattern: base), 2 << 20, &states)
        return states.reduce(0) { $0 + Int($1 & 1) } * PageChunks.page
    }
}
