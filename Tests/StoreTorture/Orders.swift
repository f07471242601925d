import DipperData
import Foundation

/// The task of one process, passed on its command line.
struct Orders: Codable {
    enum Mode: String, Codable {
        case kept, limited, damaged
    }

    var mode: Mode
    var folder: URL
    var log: URL
    /// The number of the process; the keys that only this process changes contain it.
    var place: Int
    var processes: Int
    var seed: UInt64
    var port: Int

    var text: String { get throws { String(decoding: try JSONEncoder().encode(self), as: UTF8.self) } }

    // MARK: Sizes

    /// The size limit of the folders that have one, in bytes.
    static let limit = 2 << 20
    /// The number of calls that one process runs at once.
    static let strands = 4
    /// The size of the longest body, in bytes.
    static let longestBody = 30_000

    /// The most by which a folder may exceed its limit, in bytes: entries that running processes are writing, with
    /// their overhead, and those of killed processes that have not been removed yet.
    static func staged(by processes: Int) -> Int { 2 * processes * strands * (longestBody + 1_024) }

    static func configuration(_ mode: Mode, _ folder: URL) -> DataCache.Configuration {
        var configuration = DataCache.Configuration(directory: folder)
        // Every answer comes from the disk.
        configuration.memoryLimit = 0
        configuration.diskLimit = mode == .kept ? nil : limit
        configuration.networkMonitor = AlwaysReachable()
        configuration.memoryPressure = nil
        configuration.retryPolicy = .fixed(.milliseconds(5), retries: 5)
        configuration.logger.logLevel = .critical
        return configuration
    }
}

extension Orders {
    init(text: String) throws { self = try JSONDecoder().decode(Orders.self, from: Data(text.utf8)) }
}
