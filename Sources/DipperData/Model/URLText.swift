import Foundation

extension URL {
    /// Creates a URL from text by the rules of the WHATWG URL parser, as far as a `URL` can hold the result.
    // Every URL that is made of text from outside is made here.
    package init?(text: String, relativeTo base: URL? = nil) {
        let bytes = URLText.cleaned(text)
        let end = RedactionScanner.endOfScheme(bytes) ?? 0
        let baseScheme = base?.scheme?.asciiLowercased
        let scheme = end == 0 ? baseScheme : String(decoding: bytes[..<(end - 1)], as: UTF8.self).asciiLowercased
        let isWeb = scheme.map(URLText.isWeb) ?? false
        var rest = bytes[end...]
        if isWeb {
            let tail = rest.firstIndex { "?#".utf8.contains($0) } ?? rest.endIndex
            for index in end..<tail where rest[index] == UInt8(ascii: "\\") { rest[index] = UInt8(ascii: "/") }
        }
        let hasSlashes = rest.starts(with: "//".utf8)
        let isRelative = end == 0 || (isWeb && scheme == baseScheme && !hasSlashes)
        var result = isRelative ? [] : Array(bytes[..<end])
        if hasSlashes || (isWeb && !isRelative) {
            rest = isWeb ? rest.drop { $0 == UInt8(ascii: "/") } : rest.dropFirst(2)
            let authority = rest.prefix { !"/?#".utf8.contains($0) }
            let user = authority.lastIndex(of: UInt8(ascii: "@")) ?? authority.startIndex
            // `URL` makes an international host ASCII.
            result += "//".utf8 + URLText.encoded(authority[..<user], allowing: "") + authority[user...]
            rest = rest[authority.endIndex...]
        } else if isRelative, rest.prefix(while: { !"/?#".utf8.contains($0) }).contains(UInt8(ascii: ":")) {
            // What precedes the colon is no scheme.
            result += "./".utf8
        }
        let mark = rest.firstIndex(of: UInt8(ascii: "#")) ?? rest.endIndex
        result += URLText.encoded(rest[..<mark], allowing: "/?@") + rest[mark...].prefix(1)
        result += URLText.encoded(rest[mark...].dropFirst(), allowing: "/?@")
        guard let url = URL(string: String(decoding: result, as: UTF8.self), relativeTo: base) else { return nil }
        self = url.absoluteURL
    }
}

enum URLText {
    static func isWeb(_ scheme: String) -> Bool { scheme == "http" || scheme == "https" }

    /// Drops spaces and control characters at the ends, and tabs and line breaks.
    static func cleaned(_ text: String) -> [UInt8] {
        let bytes = text.fieldBytes
        guard let last = bytes.lastIndex(where: { $0 > 0x20 }) else { return [] }
        return bytes[...last].drop { $0 <= 0x20 }.filter { !isBreak($0) }
    }

    static func isBreak(_ byte: UInt8) -> Bool { byte == 0x09 || byte == 0x0A || byte == 0x0D }

    /// Escapes the bytes that cannot stand in a part of a URL, also percent signs that begin no escape.
    fileprivate static func encoded(_ part: ArraySlice<UInt8>, allowing further: String) -> [UInt8] {
        var result: [UInt8] = []
        for (index, byte) in zip(part.indices, part) {
            let isAllowed =
                byte.isUnreserved || "!$&'()*+,;=:".utf8.contains(byte) || further.utf8.contains(byte)
                || PercentCoding.escape(at: part[index...]) != nil
            if isAllowed { result.append(byte) } else { result += PercentCoding.escape(byte) }
        }
        return result
    }

    /// Returns the text of a URL without fragment and user, and the user, which may be a secret. All spellings of an
    /// http or https URL that name one resource have one address (RFC 9110, section 4.2.3; RFC 3986, section 6.2.2).
    static func parts(of text: String) -> (address: String, user: Substring?) {
        if text.utf8.withContiguousStorageIfAvailable(isAddress) == true { return (text, nil) }
        let whole = text.prefix { $0 != "#" }
        guard let slashes = whole.range(of: "://") else { return (String(whole), nil) }
        let authority = whole[slashes.upperBound...].prefix { $0 != "/" && $0 != "?" }
        let mark = authority.lastIndex(of: "@")
        let user = mark.map { authority[..<$0] }
        let rest = whole[(mark.map(whole.index(after:)) ?? authority.startIndex)...]
        let scheme = String(whole[..<slashes.lowerBound]).asciiLowercased
        guard isWeb(scheme) else { return (String(whole[..<authority.startIndex] + rest), user) }
        let bytes = PercentCoding.replacing(Array(rest.utf8)) { $0.isUnreserved ? [$0] : PercentCoding.escape($0) }
        let plain = String(decoding: bytes, as: UTF8.self)
        let server = plain.prefix { $0 != "/" && $0 != "?" }
        let path = plain[server.endIndex...].prefix { $0 != "?" }
        var name = String(server).asciiLowercased
        if let colon = name.lastIndex(of: ":"), name[colon...].dropFirst().allSatisfy({ "0"..."9" ~= $0 }) {
            let port = name[colon...].dropFirst()
            name = String(name[..<colon])
            if !port.isEmpty, Int(port) != (scheme == "https" ? 443 : 80) { name += ":\(Int(port) ?? .max)" }
        }
        return (scheme + "://" + name + withoutDots(path) + plain[path.endIndex...], user)
    }

    /// Whether a text is an address already, as nearly every URL is. Allocates nothing: it runs for each hit in memory.
    static func isAddress(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = text.baseAddress, let (_, index) = server(text) else { return false }
        var place = index
        while place + 8 <= text.count {
            if isSuspicious(start + place) { return isPlain(UnsafeBufferPointer(rebasing: text[index...])) }
            place &+= 8
        }
        return !isSuspicious(start + text.count - 8) || isPlain(UnsafeBufferPointer(rebasing: text[index...]))
    }

    /// Returns the name of the host of a URL, in lower case; empty for a URL without one.
    static func host(of url: URL) -> String {
        let plain = url.absoluteString.utf8.withContiguousStorageIfAvailable { text in
            server(text).map { String(decoding: text[$0.host], as: UTF8.self) }
        }
        return (plain ?? nil) ?? url.host(percentEncoded: false)?.asciiLowercased ?? ""
    }

    /// Returns the places of the host and of the path, if what precedes the path is spelled as in an address.
    @inline(__always)
    private static func server(_ text: UnsafeBufferPointer<UInt8>) -> (host: Range<Int>, path: Int)? {
        guard let start = text.baseAddress, text.count > 8 else { return nil }
        let scheme = word(start)
        // The letters of `https://`, and those of `http://`, the last one first.
        let isSecure = scheme == 0x2F2F_3A73_7074_7468
        guard isSecure || scheme << 8 == 0x2F2F_3A70_7474_6800 else { return nil }
        let first = isSecure ? 8 : 7
        var index = first
        while index < text.count, isOfHost(start[index]) { index &+= 1 }
        guard index > first, index < text.count else { return nil }
        let host = first..<index
        if start[index] == UInt8(ascii: ":") {
            let port = index + 1
            repeat { index &+= 1 } while index < text.count && (0x30...0x39).contains(start[index])
            let standard: StaticString = isSecure ? "443" : "80"
            guard index > port, start[port] != 0x30,
                index - port != standard.utf8CodeUnitCount
                    || memcmp(start + port, standard.utf8Start, index - port) != 0
            else { return nil }
        }
        return index < text.count && start[index] == UInt8(ascii: "/") ? (host, index) : nil
    }

    /// Whether a byte is unreserved and no capital letter.
    @inline(__always)
    private static func isOfHost(_ byte: UInt8) -> Bool {
        byte &- 0x61 < 26 || byte &- 0x30 < 10 || byte &- 0x2D < 2 || byte == 0x5F || byte == 0x7E
    }

    @inline(__always)
    private static func word(_ bytes: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(littleEndian: UnsafeRawPointer(bytes).loadUnaligned(as: UInt64.self))
    }

    /// Whether eight bytes contain a number sign, a percent sign, or a dot after a slash; sometimes also of others.
    @inline(__always)
    private static func isSuspicious(_ bytes: UnsafePointer<UInt8>) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        func places(of byte: UInt8, in word: UInt64) -> UInt64 {
            let zeros = word ^ (ones &* UInt64(byte))
            return (zeros &- ones) & ~zeros & (ones << 7)
        }
        let (now, before) = (word(bytes), word(bytes - 1))
        return places(of: 0x23, in: now) | places(of: 0x25, in: now)
            | (places(of: 0x2E, in: now) & places(of: 0x2F, in: before)) != 0
    }

    private static func isPlain(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        path.indices.allSatisfy { place in
            switch path[place] {
            case UInt8(ascii: "#"): false
            case UInt8(ascii: "."): path[place - 1] != UInt8(ascii: "/")
            case UInt8(ascii: "%"):
                PercentCoding.escape(at: path[place...]).map { !$0.isUnreserved } == true
                    && path[place + 1] < 0x61 && path[place + 2] < 0x61
            default: true
            }
        }
    }

    /// Leaves `.` and `..` out of a path (RFC 3986, section 5.2.4).
    private static func withoutDots(_ path: Substring) -> String {
        var kept: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        for segment in segments where segment != "." {
            if segment == ".." { _ = kept.popLast() } else { kept.append(segment) }
        }
        if segments.last == "." || segments.last == ".." { kept.append("") }
        return "/" + kept.joined(separator: "/")
    }
}

extension UInt8 {
    /// Whether the byte is never escaped in a URL (RFC 3986, section 2.3).
    var isUnreserved: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
