import DipperData
import Foundation
import Synchronization

/// The requests and answers that concern one client alone, and the URLs known to have such answers. Those answers
/// bypass the cache, where other clients would get them, even clients that ask at the same time.
final class PersonalAnswers: Sendable {
    private static let mostURLs = 10_000
    private let urls = Mutex<Set<URL>>([])

    /// Returns `true` for a request with a credential, whose answer is for its sender only (RFC 9111, section 3.5).
    /// Besides `Authorization`, programs send credentials in other fields.
    /// - Parameter name: The name of a field that does not count, because the cache follows the rules for it.
    static func concern(request fields: Fields, except name: String? = nil) -> Bool {
        fields.fields.contains { Redaction.standard.isSecret($0.name) && $0.name.lowercased() != name }
    }

    static func concern(answer fields: Fields) -> Bool {
        fields["Set-Cookie"] != nil || !fields.directives.isDisjoint(with: ["private", "no-store"])
    }

    func isKnown(_ url: URL) -> Bool { urls.withLock { $0.contains(url) } }

    /// Notes whether the last answer from a URL was for one client.
    /// - Returns: whether it was, and the one before was not.
    @discardableResult
    func note(_ url: URL, isPersonal: Bool) -> Bool {
        urls.withLock { urls in
            guard isPersonal else {
                urls.remove(url)
                return false
            }
            if urls.count >= Self.mostURLs { urls.removeAll() }
            return urls.insert(url).inserted
        }
    }
}
