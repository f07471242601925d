import DipperData
import Foundation
import Synchronization

// The log of a process is a text with one line before each action and one line after it:
//
//     + KEY VERSION     is about to be written or fetched; a fetch has version 0
//     = KEY VERSION     is written: the call that waits for it has returned
//     - KEY             is about to be removed
//     ~ KEY             is removed
//     . KEY [VERSION]   was found when all processes were dead, before the log began
//     ! TEXT            something is wrong
//     # TEXT            something was done that does not change the expected content
//
// A killed process loses no line that it has written and leaves no partial line: each line is one `write` to a file
// opened with O_APPEND.

/// The expected content of each key, derived from the acknowledged changes.
///
/// All processes of a folder write the shared keys, in small and large versions, and none removes them. Once a write of
/// such a key is acknowledged, one of its written versions must be found.
struct WriteLedger {
    /// The versions that may be found under a key, and whether it may be missing.
    struct Expected: Equatable {
        var versions: Set<UInt64> = []
        var mayBeMissing = true
    }

    private(set) var expected: [String: Expected] = [:]
    private(set) var complaints: [String] = []
    private(set) var counts: [Character: Int] = [:]

    /// The ledger of a process's own keys.
    init(log: URL) {
        read(log)
        expected = expected.filter { !Entries.isShared($0.key) }
    }

    /// The ledger of the keys that all processes write.
    init(sharedIn logs: [URL]) {
        for log in logs { read(log) }
        expected = expected.filter { Entries.isShared($0.key) }
    }

    private mutating func read(_ log: URL) {
        for line in String(decoding: (try? Data(contentsOf: log)) ?? Data(), as: UTF8.self).split(separator: "\n") {
            note(line)
        }
    }

    private mutating func note(_ line: Substring) {
        let words = line.split(separator: " ")
        guard let kind = line.first, words.count >= 2 else {
            complaints.append("a line of the log is torn: \(line)")
            return
        }
        counts[kind, default: 0] += 1
        let key = String(words[1])
        let version = words.count > 2 ? UInt64(words[2]) : nil
        switch (kind, version) {
        case ("+", let version?): expected[key, default: Expected()].versions.insert(version)
        case ("=", let version?), (".", let version?):
            let others = Entries.isShared(key) ? expected[key, default: Expected()].versions : []
            expected[key] = Expected(versions: others.union([version]), mayBeMissing: false)
        case ("-", _): expected[key, default: Expected()].mayBeMissing = true
        case ("~", _), (".", nil): expected[key] = Expected()
        case ("!", _): complaints.append(String(line.dropFirst(2)))
        case ("#", _): break
        default: complaints.append("a line of the log is torn: \(line)")
        }
    }

    /// Returns a description of the problem if the version found under a key is not expected.
    func problem(with found: UInt64?, for key: String) -> String? {
        let expected = expected[key, default: Expected()]
        guard let found else { return expected.mayBeMissing ? nil : "\(key) is lost: \(expected.versions.sorted())" }
        if expected.versions.contains(found) { return nil }
        return "\(key) has version \(found), which is not of \(expected.versions.sorted())"
    }

    /// Returns the versions that a cache has, and the problems with them.
    func compare(_ cache: DataCache) -> (found: [String: UInt64?], problems: [String]) {
        var found: [String: UInt64?] = [:]
        var problems: [String] = []
        for key in expected.keys.sorted() {
            let data = cache.readData(for: CacheKey(key))
            let version = data.flatMap { Entries.version(of: $0, key: key) }
            if data != nil, version == nil { problems.append("\(key) has wrong bytes") }
            if let problem = problem(with: version, for: key) { problems.append(problem) }
            found.updateValue(version, forKey: key)
        }
        return (found, problems)
    }

    /// Returns the first lines of a log: the entries that were found.
    static func lines(of found: [String: UInt64?]) -> Data {
        Data(found.map { key, version in version.map { ". \(key) \($0)\n" } ?? ". \(key)\n" }.joined().utf8)
    }
}

final class LedgerFile: Sendable {
    private let file: Int32

    init(_ log: URL) { file = open(log.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600) }

    deinit { close(file) }

    func note(_ line: String) {
        let bytes = Array("\(line)\n".utf8)
        if write(file, bytes, bytes.count) != bytes.count { exit(74) }
    }

    func complain(_ text: String) { note("! \(text.replacing("\n", with: " "))") }
}
