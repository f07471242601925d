import DipperData
import Foundation
import Synchronization

/// Tells which requests and answers concern one client alone, and remembers at which URLs there are such answers. They
/// never pass through the cache, where others would get them, also those who ask at the same time.
final class PersonalAnswers: Sendable {
    private static let mostURLs = 10_000
    private let urls = Mutex<Set<URL>>([])

    /// True for a request with a credential: what someone gets who proves to be allowed to is not for the next one
    /// (RFC 9111, section 3.5). Programs have other fields for it beside `Authorization`.
    static func concern(request fields: Fields) -> Bool {
        fields.fields.contains { Redaction.standard.isSecret($0.name) }
    }

    /// True for an answer that no other client may have.
    static func concern(answer fields: Fields) -> Bool {
        fields["Set-Cookie"] != nil || !fields.directives.isDisjoint(with: ["private", "no-store"])
    }

    /// Whether the last answer from here was for one client.
    func isKnown(_ url: URL) -> Bool { urls.withLock { $0.contains(url) } }

    func note(_ url: URL, isPersonal: Bool) {
        urls.withLock { urls in
            guard isPersonal else {
                urls.remove(url)
                return
            }
            // Whoever names that many makes the proxy ask twice, no more.
            if urls.count >= Self.mostURLs { urls.removeAll() }
            urls.insert(url)
        }
    }
}
