import DipperTesting
import Foundation
import GRDB
import TestSupport

/// Returns a connection to the index of a folder. It waits for a store that is writing, as stores do for it.
func indexQueue(_ folder: TemporaryFolder) throws -> DatabaseQueue {
    var configuration = GRDB.Configuration()
    configuration.busyMode = .timeout(40)
    return try DatabaseQueue(path: folder.path + "/index.sqlite", configuration: configuration)
}

extension ManualDate {
    /// The time as a closure.
    var time: @Sendable () -> Date { { self.now } }
}
