import DipperTesting
import Foundation
import Synchronization

@testable import DipperData

/// A folder that goes with the test.
final class TemporaryFolder: Sendable {
    let url: URL

    init() {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("dipper-\(UUID().uuidString)")
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// All files in it, with paths relative to it.
    var files: [String] {
        (FileManager.default.subpaths(atPath: url.path) ?? []).filter { path in
            var isFolder: ObjCBool = false
            return FileManager.default.fileExists(atPath: url.path + "/" + path, isDirectory: &isFolder)
                && !isFolder.boolValue
        }
    }
}

/// A place for what closures find.
final class Box<Value: Sendable>: Sendable {
    private let state: Mutex<Value>
    init(_ value: Value) { state = Mutex(value) }
    var value: Value { state.withLock { $0 } }
    func update(_ body: (inout Value) -> Void) { state.withLock { body(&$0) } }
}

/// A wall clock that stands still until it is set.
final class ManualDate: Sendable {
    private let state = Mutex(Date(timeIntervalSince1970: 1_800_000_000))
    var now: Date { state.withLock { $0 } }
    func advance(by seconds: TimeInterval) { state.withLock { $0 += seconds } }
}

/// A cache in which everything is in the test's hands.
struct TestCache {
    let transport = ScriptedTransport()
    let clock = ManualClock()
    let network = ManualNetwork()
    let date: ManualDate
    let cache: DataCache
    private let folder: TemporaryFolder?

    init(
        folder: TemporaryFolder? = nil, date: ManualDate = ManualDate(),
        _ change: (inout DataCache.Configuration) -> Void = { _ in }
    ) {
        self.date = date
        self.folder = folder
        var configuration = DataCache.Configuration(directory: folder?.url)
        configuration.transport = transport
        configuration.clock = clock
        configuration.networkMonitor = network
        configuration.memoryPressure = nil
        configuration.now = { [date] in date.now }
        configuration.callbackQueue = .inPlace
        configuration.logger.logLevel = .critical
        change(&configuration)
        cache = DataCache(configuration)
    }
}

/// Waits for what is in other threads' hands, until the condition holds; false if it does not within a minute.
func settle(isolation: isolated (any Actor)? = #isolation, _ condition: () -> Bool) async -> Bool {
    let end = ContinuousClock.now + .seconds(60)
    var rounds = 0
    while !condition() {
        if ContinuousClock.now > end { return condition() }
        rounds += 1
        // In the end the processor is left to what is waited for.
        if rounds < 1_000 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(1)) }
    }
    return true
}

func url(_ path: String) -> URL { URL(string: "http://host.test/\(path)")! }

extension DataTask {
    /// The error it ends with; `nil` if it ends well.
    var error: DipperError? {
        get async {
            do throws(DipperError) {
                _ = try await value
                return nil
            } catch {
                return error
            }
        }
    }

    /// Returns as soon as the task does what is asked for, by its own events.
    func reaches(_ condition: @escaping @Sendable (Event) -> Bool) async -> Bool {
        for await event in events where condition(event) { return true }
        return false
    }
}

/// Answers before it has handed its transfer out, which holds what it was given as libcurl's does.
struct InstantTransport: Transport {
    struct Done: Transfer {
        let receive: @Sendable (TransferEvent) -> Void
        func cancel() {}
        func setThrottled(_ isThrottled: Bool) {}
        func setLane(_ lane: Lane) {}
    }

    func start(
        _ request: TransferRequest, receive: @escaping @Sendable (TransferEvent) -> Void
    ) -> any Transfer {
        receive(.finished(.success(TransferResponse(body: Data("here".utf8)))))
        return Done(receive: receive)
    }

    func shutdown() async {}
}
