import Dipper
import Foundation

/// The picture that a path asks for: `fit:400x300/format:auto/https://example.org/a.jpg`.
///
/// | option | |
/// |---|---|
/// | `fit:WxH`, `fit:Wx`, `fit:xH` | not larger than this, in its own proportions |
/// | `fill:WxH` | covers this size, and is cut to it |
/// | `format:F` | `auto` (the default, by the client's `Accept`), `avif`, `webp`, `jpeg` or `png`, if it can be written |
/// | `quality:N` | from 1 to 100, by default 80 |
///
/// No picture becomes larger than its source. The URL follows the options, as it is or percent-encoded: programs between
/// the client and the server may change a path with two slashes or with a `?`.
struct PictureQuery: Hashable, Sendable {
    struct Limits: Sendable {
        /// The largest width and height of an answer, in pixels.
        var side = 4096
        /// The hosts that pictures may come from, as `example.org` or `*.example.org`; empty for all.
        var hosts: [String] = []
        var formats = CodecRegistry.standard.writable.intersection([.avif, .webp, .jpeg, .png])
    }

    private(set) var size: TargetSize?
    /// Whether a picture is cut to its size.
    var cuts: Bool { size?.mode == .fill }
    /// `nil` for that which the client likes best.
    private(set) var format: ImageFormat?
    private(set) var quality = 80
    let source: URL
    /// As they are in the path.
    let options: String
    /// For the log, without secrets.
    var logText: String { String("\(options)/\(Redaction.standard.text(source))".prefix(500)) }

    init(_ text: Substring, _ limits: Limits) throws(Refusal) {
        var rest = text
        var options: [Substring] = []
        while !rest.prefix(8).lowercased().hasURLScheme {
            guard let slash = rest.firstIndex(of: "/") else { throw Refusal(.badRequest, "no URL in the path") }
            options.append(rest[..<slash])
            rest = rest[rest.index(after: slash)...]
        }
        // Only an encoded URL has a percent sign there.
        guard let url = rest.prefix(6).contains("%") ? String(rest).removingPercentEncoding : String(rest),
            let source = URL(string: url), let host = source.host(), !host.isEmpty, source.user() == nil
        else { throw Refusal(.badRequest, "no URL in the path") }
        guard limits.hosts.isEmpty || limits.hosts.contains(where: { host.isIn($0) }) else {
            throw Refusal(.forbidden, "no pictures from this host")
        }
        (self.source, self.options) = (source, options.joined(separator: "/"))
        for option in options {
            let parts = option.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, take(parts[0], parts[1], limits) else {
                throw Refusal(.badRequest, "an option that is unknown, or whose value is not allowed")
            }
        }
    }

    private mutating func take(_ name: Substring, _ value: Substring, _ limits: Limits) -> Bool {
        switch name {
        case "fit", "fill":
            size = Self.size(value, name == "fit" ? .fit : .fill, limits)
            return size != nil
        case "format":
            let named = ImageFormat(rawValue: String(value))
            format = limits.formats.contains(named) ? named : nil
            return format != nil || value == "auto"
        case "quality":
            quality = Int(value) ?? 0
            return (1...100).contains(quality)
        default: return false
        }
    }

    private static func size(_ text: Substring, _ mode: TargetSize.Mode, _ limits: Limits) -> TargetSize? {
        let sides = text.split(separator: "x", omittingEmptySubsequences: false).map { side in
            // The other side decides.
            side.isEmpty && mode == .fit ? limits.side : Int(side) ?? 0
        }
        guard sides.count == 2, text != "x", sides.allSatisfy((1...limits.side).contains) else { return nil }
        return TargetSize(width: sides[0], height: sides[1], mode)
    }

    /// Returns the format of the answer to a client: a small one if its `Accept` names it, and otherwise JPEG.
    func format(for accept: String?, _ limits: Limits) -> ImageFormat {
        if let format { return format }
        let accepted = (accept ?? "").lowercased().split(separator: ",").filter { range in
            let parameters = range.split(separator: ";").dropFirst().map { $0.filter { $0 != " " } }
            return !parameters.contains { $0.hasPrefix("q=0") && Double($0.dropFirst(2)) == 0 }
        }
        return [ImageFormat.avif, .webp].first { format in
            limits.formats.contains(format)
                && accepted.contains { $0.prefix { $0 != ";" }.filter { $0 != " " } == format.mimeType }
        } ?? .jpeg
    }
}

extension StringProtocol {
    fileprivate var hasURLScheme: Bool {
        ["http:", "https:", "http%3a", "https%3a"].contains { hasPrefix($0) }
    }

    fileprivate func isIn(_ pattern: String) -> Bool {
        let (host, pattern) = (lowercased(), pattern.lowercased())
        return host == pattern || pattern.hasPrefix("*.") && host.hasSuffix(pattern.dropFirst())
    }
}
