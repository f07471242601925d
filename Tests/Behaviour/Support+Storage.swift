import TestSupport
import Testing

extension TestCache {
    /// Returns a cache whose memory keeps nothing, so that each read shows what the disk has.
    static func onDisk(
        _ folder: TemporaryFolder, date: ManualDate = ManualDate(),
        _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) -> TestCache {
        TestCache(folder: folder, date: date) {
            $0.memoryLimit = 0
            change(&$0)
        }
    }
}

extension DataCache {
    var listedKeys: Set<String> {
        var keys: Set<String> = []
        forEachEntry { keys.insert($0.key.string) }
        return keys
    }

    func keep(_ keys: [String], size: Int) async throws {
        for key in keys { try await addDataAndWait(DiskBytes.of(size, key), for: CacheKey(key)) }
    }

    func keep(_ sizes: KeyValuePairs<String, Int>) async throws {
        for (key, size) in sizes { try await keep([key], size: size) }
    }

    func expectNotDurable(_ size: Int = 100, _ request: DataRequest = .durable) async {
        await #expect(throws: DipperError.notWritten) { try await addDataAndWait(Data(count: size), for: request) }
    }

    /// Makes every kind of change that a cache can make to its folder, and shuts down.
    func useAll() async throws {
        try await keep(["a": 9_000, "b": 100])
        removeData(for: "a")
        removeExpired()
        flush(olderThan: .seconds(1_000))
        trimDisk(to: 0)
        _ = await verify()
        clear()
        await shutdown()
    }
}

extension DataRequest {
    static var durable: DataRequest { DataRequest(TestSupport.url("durable")).with(\.durability, .durable) }
}

/// Bodies that no two keys have in common.
enum DiskBytes {
    static func of(_ size: Int, _ key: String = "") -> Data {
        let pattern = Data((key + " of \(size) bytes; ").utf8)
        var data = Data(capacity: size + pattern.count)
        while data.count < size { data.append(pattern) }
        return data.prefix(size)
    }

    static func noise(_ size: Int) -> Data {
        var random = SeededRandom(7)
        return Data((0..<size).map { _ in UInt8(random.below(256)) })
    }
}

/// A codec that changes nothing, and calls a closure before a record is written or read.
struct WatchedCodec: RecordCodec {
    let identifier = "watched"
    var onWrite: @Sendable (Data) -> Void = { _ in }
    var onRead: @Sendable () -> Void = {}

    func encode(_ record: Data) -> Data {
        onWrite(record)
        return record
    }

    func decode(_ bytes: Data) -> Data {
        onRead()
        return bytes
    }
}

/// A codec that changes nothing. While it is shut, entries wait to be written.
final class DoorCodec: RecordCodec {
    let identifier = "door"
    private let door = Box<Door?>(nil)

    func encode(_ record: Data) -> Data {
        door.value?.pass()
        return record
    }

    func decode(_ bytes: Data) -> Data { bytes }

    func shut() { door.update { $0 = Door() } }

    func open() {
        door.value?.stayOpen()
        door.update { $0 = nil }
    }

    func waitForWrite() async throws { try await (door.value ?? Door()).waitForArrivals(1) }
}

extension URL {
    func damage(at place: Int) throws {
        var bytes = try Data(contentsOf: self)
        bytes[place] ^= 1
        try bytes.write(to: self)
    }
}

extension TemporaryFolder {
    func copied() throws -> TemporaryFolder {
        let copy = TemporaryFolder()
        try FileManager.default.removeItem(at: copy.url)
        try FileManager.default.copyItem(at: url, to: copy.url)
        return copy
    }

    var folders: [String] {
        let all = FileManager.default.subpaths(atPath: path) ?? []
        return Array(Set(all).subtracting(files)).sorted()
    }

    /// The largest of the files that hold data of entries.
    var largestFile: URL? {
        func size(_ file: URL) -> Int { (try? Data(contentsOf: file))?.count ?? 0 }
        return files.filter { $0 != "reserve" }.map { url.appendingPathComponent($0) }.max { size($0) < size($1) }
    }

    func finding(_ texts: [String]) throws -> [String] {
        try files.flatMap { name in
            let bytes = try Data(contentsOf: url.appendingPathComponent(name))
            return texts.filter { bytes.firstRange(of: Data($0.utf8)) != nil }.map { "\(name): \($0)" }
        }
    }
}

/// A tier in memory, made with the public protocol alone. A test decides how each look-up goes.
final class Shelf: Tier {
    struct Fault: Error {}

    enum Mood: Sendable {
        case works, fails, garbles
        /// Answers when the gate is open.
        case waits(Gate)
        /// Never answers, and ignores that it is cancelled.
        case hangs
    }

    let name = "shelf"
    let records = Box<[String: Data]>([:])
    let expirations = Box<[String: Date?]>([:])
    let lookUps = Box(0)
    private let mood: @Sendable () -> Mood

    init(_ mood: @escaping @Sendable () -> Mood = { .works }) {
        self.mood = mood
    }

    func record(named name: String) async throws -> Data? {
        lookUps.update { $0 += 1 }
        try await behave()
        let record = records.value[name]
        guard case .garbles = mood(), var bytes = record else { return record }
        bytes[bytes.count / 2] ^= 1
        return bytes
    }

    func store(_ record: Data, named name: String, until expiration: Date?) async throws {
        try await behave()
        records.update { $0[name] = record }
        expirations.update { $0[name] = expiration }
    }

    func removeRecord(named name: String) async throws {
        try await behave()
        records.update { $0[name] = nil }
    }

    private func behave() async throws {
        switch mood() {
        case .works, .garbles: break
        case .fails: throw Fault()
        case .waits(let gate): await gate.pass()
        case .hangs: await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
    }
}
