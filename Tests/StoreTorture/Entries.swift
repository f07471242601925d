import DipperData
import FaultServer
import Foundation
import TortureSupport

/// The two kinds of entries: added ones (`…k7`), which have versions, and fetched ones (`…f7`), which never change.
enum Entries {
    static func isFetched(_ key: String) -> Bool { key.contains("f") }
    /// Whether all processes write the key.
    static func isShared(_ key: String) -> Bool { key.hasPrefix("x") }
    static func sharedKey(_ random: inout SeededRandom) -> String { "xk\(Int.random(in: 0..<20, using: &random))" }

    /// Returns the version of bytes found under a key; `nil` if these bytes were never written under it.
    static func version(of data: Data, key: String) -> UInt64? {
        if !isFetched(key) { return TortureEntry.version(of: data, key: key) }
        return data == FaultServer.body(of: path(key), size: size(key)) ? 0 : nil
    }

    static func size(_ random: inout SeededRandom) -> Int {
        Int.random(in: 60...(random.oneIn(8) ? Orders.longestBody : random.oneIn(2) ? 6_000 : 900), using: &random)
    }

    private static func size(_ key: String) -> Int {
        1 + key.utf8.reduce(7) { ($0 * 131 + Int($1)) % 20_000 }
    }

    private static func path(_ key: String) -> String { "/bytes/\(size(key))/\(key)" }

    private static let breaking = "etag=a&cut=1500"

    static func breaksOff(_ request: DataRequest) -> Bool { request.url?.query() == breaking }

    /// Makes a request for a fetched entry, with a random fault on the server's side.
    /// - Parameter isShared: whether several calls of this process may ask for the key at once. They join one fetch, so
    ///   the answers to all of them are broken off, or to none.
    static func request(_ key: String, isShared: Bool, port: Int, _ random: inout SeededRandom) -> DataRequest? {
        let faults = ["", "gzip=1", "cut=100&times=1", "status=503&times=1", "chunked=1", "etag=a&cut=50&times=2"]
        // The next call continues a body that the server breaks off each time, also after a kill.
        let breaksOff = isShared ? size(key).isMultiple(of: 3) : random.oneIn(3)
        // Each other call needs its own target, because the server counts faults by target.
        let query = breaksOff ? breaking : "n=\(random.next())&\(faults.randomElement(using: &random) ?? "")"
        guard let url = URL(string: "http://127.0.0.1:\(port)\(path(key))?\(query)") else { return nil }
        var request = DataRequest(url)
        request.key = CacheKey(key)
        request.waitsForDiskWrite = true
        request.durability = random.oneIn(2) ? .durable : .relaxed
        return request
    }
}
