import DipperData
import Foundation

/// A disk that fails, or takes its time, when a test says so. The files of the cache are real ones.
///
/// ```swift
/// let disk = FailingDisk()
/// var configuration = DataCache.Configuration(directory: folder)
/// disk.attach(to: &configuration)
/// let cache = DataCache(configuration)
///
/// disk.fail(.full)
/// try await cache.addDataAndWait(Data("here".utf8), for: "note")      // stays in memory
/// try await disk.waitForRefusals(1)
/// disk.heal()                                                         // later entries are written again
/// ```
///
/// One disk may serve several caches. Call ``release()`` before a cache shuts down, which waits for held operations.
public final class FailingDisk: Sendable, DiskFaults {
    /// An operation that a cache asks of a disk.
    public enum Operation: Sendable, Hashable, CaseIterable {
        /// Reading an entry.
        case read
        /// Writing an entry or the list of entries.
        case write
        /// Waiting until what was written is on the device, as for entries with `Durability.durable`.
        case flush
        /// Removing the file of an entry.
        case remove
    }

    /// The fault of a disk.
    public enum Fault: Sendable, Hashable {
        /// There is no room: nothing can be written, and entries can be read and removed.
        case full
        /// The disk can be read and not changed.
        case readOnly
        /// Every operation fails.
        case ioError
    }

    private struct State {
        /// As `errno`.
        var errors: [Operation: Int32] = [:]
        var holds: Set<Operation> = []
        var held = 0
        var refusals = 0
    }

    private let state = WatchedState(State())
    private let door = DispatchSemaphore(value: 0)

    /// Creates a disk that works.
    public init() {}

    /// Makes a cache that is created with the configuration use this disk. Without effect on a cache without a folder.
    public func attach(to configuration: inout DataCache.Configuration) { configuration.diskFaults = self }

    /// Makes operations fail from now on, in place of an earlier fault.
    public func fail(_ fault: Fault) {
        let (code, operations): (Int32, [Operation]) =
            switch fault {
            case .full: (ENOSPC, [.write])
            case .readOnly: (EROFS, [.write, .flush, .remove])
            case .ioError: (EIO, Operation.allCases)
            }
        state.update { $0.errors = Dictionary(uniqueKeysWithValues: operations.map { ($0, code) }) }
    }

    /// Makes single operations fail with an I/O error from now on, in place of an earlier fault.
    public func fail(_ operations: Set<Operation>) {
        state.update { $0.errors = Dictionary(uniqueKeysWithValues: operations.map { ($0, EIO) }) }
    }

    /// Makes the disk work again. Operations that are held stay held.
    public func heal() { state.update { $0.errors = [:] } }

    /// The number of operations that have failed so far.
    public var refusals: Int { state.value.refusals }

    /// Returns as soon as at least `count` operations have failed.
    public func waitForRefusals(
        _ count: Int, within limit: Duration = WaitTimeout.standard
    ) async throws {
        try await state.wait(within: limit, until: { $0.refusals >= count }) {
            "\($0.refusals) of \(count) operations of the disk had failed"
        }
    }

    /// Makes operations wait until ``release()``, as on a disk that is slow, by default all that change the disk.
    ///
    /// ```swift
    /// disk.hold()
    /// try cache.addData(Data("here".utf8), for: "note")
    /// try await disk.waitForHeld(1)       // the entry is still to be written
    /// disk.release()
    /// ```
    public func hold(_ operations: Set<Operation> = [.write, .flush, .remove]) {
        state.update { $0.holds = operations }
    }

    /// Lets all operations go on, those that are held and all later ones.
    public func release() {
        let held = state.update { state in
            defer { (state.holds, state.held) = ([], 0) }
            return state.held
        }
        for _ in 0..<held { door.signal() }
    }

    /// The number of operations that are held now.
    public var held: Int { state.value.held }

    /// Returns as soon as at least `count` operations are held.
    public func waitForHeld(_ count: Int, within limit: Duration = WaitTimeout.standard) async throws {
        try await state.wait(within: limit, until: { $0.held >= count }) {
            "\($0.held) of \(count) operations of the disk were held"
        }
    }

    package func error(for operation: DiskOperation) -> Int32? {
        let operation: Operation =
            switch operation {
            case .read: .read
            case .write: .write
            case .flush: .flush
            case .remove: .remove
            }
        let isHeld = state.update { state in
            guard state.holds.contains(operation) else { return false }
            state.held += 1
            return true
        }
        if isHeld { door.wait() }
        return state.update { state in
            guard let code = state.errors[operation] else { return nil }
            state.refusals += 1
            return code
        }
    }
}
