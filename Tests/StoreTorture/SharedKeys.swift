import DipperData
import Foundation
import TortureSupport

/// Keys that all processes of a folder write, in small and large versions, and that no process removes.
///
/// Once a write of a key is acknowledged, one of its written versions must be found.
struct SharedKeys {
    private var versions: [String: Set<UInt64>] = [:]
    private var acknowledged: Set<String> = []

    static func isShared(_ key: String) -> Bool { key.hasPrefix("x") }
    static func any(_ random: inout SeededRandom) -> String { "xk\(Int.random(in: 0..<20, using: &random))" }

    init(logs: [URL]) {
        for log in logs {
            for line in String(decoding: (try? Data(contentsOf: log)) ?? Data(), as: UTF8.self).split(separator: "\n") {
                let words = line.split(separator: " ")
                guard words.count == 3, let version = UInt64(words[2]), Self.isShared(String(words[1])) else {
                    continue
                }
                let key = String(words[1])
                versions[key, default: []].insert(version)
                if words[0] != "+" { acknowledged.insert(key) }
            }
        }
    }

    /// Returns the versions found in a folder that no process uses, and the problems with them.
    func compare(_ cache: DataCache) -> (found: [String: UInt64?], problems: [String]) {
        var found: [String: UInt64?] = [:]
        var problems: [String] = []
        for (key, versions) in versions {
            let data = cache.data(for: CacheKey(key))
            let version = data.flatMap { Entries.version(of: $0, key: key) }
            if let version {
                if !versions.contains(version) { problems.append("\(key) has version \(version), which nobody wrote") }
                found[key] = version
            } else if data != nil {
                problems.append("\(key) has wrong bytes")
            } else if acknowledged.contains(key) {
                problems.append("\(key) is lost, which several processes wrote")
            }
        }
        return (found, problems)
    }
}
