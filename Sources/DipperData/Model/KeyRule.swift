import Foundation

/// The rule for which parameters of a URL's query are part of its key. Parameters that only sign the request, or say how
/// long it may be sent, would make a new entry of each URL.
///
/// ```swift
/// configuration.keyRule = .signatures                                     // S3, Google, Azure, CloudFront
/// configuration.keyRule = .signatures.leavingOut("token", "session-*")    // and parameters of one's own
/// ```
///
/// The key has the other parameters in the order of their names; those of one name keep their order, and all keep their
/// spelling. The server receives the URL as it is.
public struct KeyRule: Sendable, Hashable {
    private var names: Set<String> = []
    private var leavesSignaturesOut = false

    /// The rule that leaves out signatures of URLs: of Amazon S3 and services with its interface (`X-Amz-…`, or
    /// `AWSAccessKeyId`, `Expires`, `Signature`), Google Cloud Storage (`X-Goog-…`, or `GoogleAccessId`, `Expires`,
    /// `Signature`), Azure Storage (`sig`, and the other parameters of a shared access signature) and CloudFront
    /// (`Key-Pair-Id`, `Expires`, `Policy`, `Signature`). Parameters with these names count in URLs without a signature.
    public static let signatures: KeyRule = {
        var rule = KeyRule()
        rule.leavesSignaturesOut = true
        return rule
    }()

    private init() {}

    /// Returns a rule that leaves parameters out, by their names without percent-encoding. A name that ends in `*` means
    /// all names that begin so.
    public static func leavingOut(_ names: String...) -> KeyRule { KeyRule().adding(names) }

    /// Returns the rule with more parameters to leave out. A name that ends in `*` means all names that begin so.
    public func leavingOut(_ names: String...) -> KeyRule { adding(names) }

    private func adding(_ names: [String]) -> KeyRule {
        var rule = self
        rule.names.formUnion(names)
        return rule
    }

    private struct Signer {
        /// The parameters without which a URL has no signature of this kind.
        let marks: Set<String>
        let others: Set<String>
    }

    // The names as the services document them.
    private static let signers = [
        Signer(marks: ["X-Amz-Signature"], others: ["X-Amz-*"]),
        Signer(marks: ["AWSAccessKeyId", "Signature"], others: ["Expires", "x-amz-security-token"]),
        Signer(marks: ["X-Goog-Signature"], others: ["X-Goog-*"]),
        Signer(marks: ["GoogleAccessId", "Signature"], others: ["Expires"]),
        Signer(marks: ["Key-Pair-Id", "Signature"], others: ["Expires", "Policy", "Hash-Algorithm"]),
        Signer(
            marks: ["sig", "sv"],
            others: [
                "se", "sp", "spr", "sr", "ss", "srt", "st", "si", "sip", "sdd", "ses", "saoid", "scid", "suoid",
                "skoid",
                "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid",
            ]),
    ]

    /// Returns the URL as it is part of a key, or the URL itself without parameters.
    func applied(to url: URL) -> URL {
        let text = url.absoluteString
        let whole = text.prefix { $0 != "#" }
        guard let mark = whole.firstIndex(of: "?") else { return url }
        let parameters = whole[mark...].dropFirst().split(separator: "&").map { parameter in
            let name = parameter.prefix { $0 != "=" }
            return (name: name.removingPercentEncoding ?? String(name), text: parameter)
        }
        var out = names
        if leavesSignaturesOut {
            let present = Set(parameters.map(\.name))
            for signer in Self.signers where signer.marks.isSubset(of: present) {
                out.formUnion(signer.marks.union(signer.others))
            }
        }
        let starts = out.filter { $0.hasSuffix("*") }.map { $0.dropLast() }
        let kept = parameters.enumerated()
            .filter { _, parameter in
                !out.contains(parameter.name) && !starts.contains { parameter.name.hasPrefix($0) }
            }
            .sorted { ($0.element.name, $0.offset) < ($1.element.name, $1.offset) }
            .map(\.element.text).joined(separator: "&")
        return URL(string: whole[..<mark] + (kept.isEmpty ? "" : "?" + kept)) ?? url
    }
}
