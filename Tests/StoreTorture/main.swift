// Writes entries into a cache as fast as it can, until it is killed. A dot on standard output for each thirty.
//
// usage: StoreTorture FOLDER SEED

import DipperData
import Foundation

guard CommandLine.arguments.count == 3, let seed = UInt64(CommandLine.arguments[2]) else {
    FileHandle.standardError.write(Data("usage: StoreTorture FOLDER SEED\n".utf8))
    exit(64)
}
var configuration = DataCache.Configuration(directory: URL(fileURLWithPath: CommandLine.arguments[1]))
configuration.diskLimit = 4 << 20
let cache = DataCache(configuration)
var version = seed
while true {
    for _ in 0..<30 {
        version = version &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        let key = "k\((version >> 33) % 200)"
        if (version >> 20) % 10 == 0 {
            cache.removeData(for: CacheKey(key))
        } else {
            // Small, large, and now and then much larger ones.
            let size = (version >> 40) % 8 == 0 ? Int((version >> 24) % 90_000) : Int((version >> 24) % 5_000)
            try cache.addData(TortureEntry.body(key: key, version: version, size: size), for: CacheKey(key))
        }
    }
    FileHandle.standardOutput.write(Data(".".utf8))
}
