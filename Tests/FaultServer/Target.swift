import Foundation

/// The target of a request, split into path and query.
struct Target: Sendable {
    /// The path as sent, without the query.
    let path: String

    /// The parameters of the query as sent, such as `delay=5`.
    let query: [String]

    /// - Parameter uri: the request target in origin form, or in absolute form, which proxies receive (RFC 9112,
    ///   section 3.2).
    init(_ uri: String) {
        var rest = uri[...]
        if let scheme = rest.range(of: "://"), !rest.hasPrefix("/") {
            let authority = rest[scheme.upperBound...]
            rest = authority[(authority.firstIndex { $0 == "/" || $0 == "?" } ?? authority.endIndex)...]
        }
        let mark = rest.firstIndex(of: "?") ?? rest.endIndex
        path = mark == rest.startIndex ? "/" : String(rest[..<mark])
        query = rest[mark...].dropFirst().split(separator: "&").map(String.init)
    }

    /// The names and the percent-decoded values of the query's parameters; a `+` is a plus.
    var parameters: [(name: String, value: String)] {
        query.map { piece in
            let pair = piece.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = pair.count > 1 ? String(pair[1]) : ""
            return (String(pair[0]), value.removingPercentEncoding ?? value)
        }
    }

    /// Returns path and query with another value for one of the query's parameters.
    func replacing(_ name: String, by value: Int) -> String {
        path + "?"
            + query.map { $0.hasPrefix("\(name)=") ? "\(name)=\(value)" : $0 }.joined(separator: "&")
    }

    /// The path and query as sent, without an authority.
    var pathAndQuery: String {
        query.isEmpty ? path : path + "?" + query.joined(separator: "&")
    }
}
