/// A scanner that reads one line once and leaves out user information and the values of secret names.
///
/// User information stands between a scheme's colon and slashes and the last `@` before the next delimiter. A name
/// reaches from the previous delimiter to an equals sign; its value ends with its part of the path or query.
/// Percent-encoded parts are left out as a whole if they contain a secret. The line need not be a well-formed URL.
struct RedactionScanner {
    static func isSuspicious(_ byte: UInt8) -> Bool { "@=%:".utf8.contains(byte) }

    static func redact(_ line: [UInt8], _ names: SecretNames, depth: Int) -> [UInt8] {
        var scanner = RedactionScanner(line: line, names: names, depth: depth)
        scanner.run()
        return scanner.output
    }

    /// The most levels of URLs inside URLs that are decoded; deeper parts are left out.
    private static let maximumDepth = 4
    private static let mark = Array(Redaction.mark.utf8)

    private let line: [UInt8]
    private let names: SecretNames
    private let depth: Int
    private var output: [UInt8] = []
    private var position = 0
    private var partStart = 0
    /// Whether values end at delimiters, and colons do not end names.
    private let isURL: Bool
    private var isInQuery = false
    /// The last `@` of the line, found once because every `://` may need it.
    private let lastSign: Int?

    private init(line: [UInt8], names: SecretNames, depth: Int) {
        self.line = line
        self.names = names
        self.depth = depth
        lastSign = line.lastIndex(of: UInt8(ascii: "@"))
        output.reserveCapacity(line.count)
        let scheme = Self.endOfScheme(line)
        isURL = scheme.map { line[$0...].starts(with: "//".utf8) } ?? line.starts(with: "//".utf8)
    }

    private mutating func run() {
        if let scheme = Self.endOfScheme(line) {
            position = scheme
            while position < line.count, Self.isSlash(line[position]) { position += 1 }
            output += line[..<position]
            if position == scheme, position < line.count, names.contains(line[..<(scheme - 1)]) {
                // A secret name and its value, in a custom key.
                output += Self.mark
                return
            }
            authority(hasSlashes: position > scheme)
        } else if isURL {
            output += line[..<2]
            position = 2
            authority(hasSlashes: true)
        }
        partStart = position
        while position < line.count {
            let byte = line[position]
            if byte == UInt8(ascii: "=") || (byte == UInt8(ascii: ":") && !isURL && !startsSlashes(position + 1)) {
                separator()
            } else if Self.endsPart(byte) {
                endPart()
                delimiter(byte)
            } else {
                position += 1
            }
        }
        endPart()
    }

    private mutating func endPart() {
        output += isSecretWhenDecoded(line[partStart..<position]) ? Self.mark[...] : line[partStart..<position]
        partStart = position
    }

    private func isSecretWhenDecoded(_ part: ArraySlice<UInt8>) -> Bool {
        guard let decoded = PercentCoding.decoded(Array(part)) else { return false }
        guard depth < Self.maximumDepth else { return true }
        return Self.redact(decoded, names, depth: depth + 1) != decoded
    }

    private mutating func delimiter(_ byte: UInt8) {
        if "?&#".utf8.contains(byte) { isInQuery = true }
        position += 1
        output.append(byte)
        if position >= 3, line[..<position].suffix(3).elementsEqual("://".utf8) { authority(hasSlashes: true) }
        partStart = position
    }

    private mutating func separator() {
        let name = name(before: position)
        endPart()
        output.append(line[position])
        position += 1
        partStart = position
        guard names.contains(name) else { return }
        // A space or a quotation mark may stand before the value.
        while !isURL, position < line.count, Self.isSpaceOrQuote(line[position]) { position += 1 }
        endPart()
        let end = isURL ? line[position...].firstIndex(where: endsValue) ?? line.count : line.count
        if end > position { output += Self.mark }
        position = end
        partStart = end
    }

    private func name(before end: Int) -> ArraySlice<UInt8> {
        var end = end
        while end > 0, Self.isSpaceOrQuote(line[end - 1]) { end -= 1 }
        let start = line[..<end].lastIndex(where: Self.endsName).map { $0 + 1 } ?? 0
        return line[start..<end]
    }

    private func endsValue(_ byte: UInt8) -> Bool { (isInQuery ? "#&" : "#/?").utf8.contains(byte) }

    private mutating func authority(hasSlashes: Bool) {
        let end = line[position...].firstIndex(where: Self.endsAuthority) ?? line.count
        var sign = line[position..<end].lastIndex(of: UInt8(ascii: "@"))
        if sign == nil, hasSlashes, !hasPlausiblePort(line[position..<end]) {
            // The password contains a slash, a question mark or a number sign.
            sign = lastSign
        }
        guard let sign, sign > position else { return }
        output += Self.mark
        position = sign
    }

    private func hasPlausiblePort(_ authority: ArraySlice<UInt8>) -> Bool {
        let host = authority.lastIndex(of: UInt8(ascii: "]")) ?? authority.startIndex
        guard let colon = authority[host...].firstIndex(of: UInt8(ascii: ":")) else { return true }
        return authority[(colon + 1)...].allSatisfy { (0x30...0x39).contains($0) }
    }

    private func startsSlashes(_ index: Int) -> Bool { line[min(index, line.count)...].starts(with: "//".utf8) }

    static func endOfScheme(_ line: [UInt8]) -> Int? {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), let first = line.first, isLetter(first) else {
            return nil
        }
        let isScheme = line[..<colon].allSatisfy { byte in
            isLetter(byte) || (0x30...0x39).contains(byte) || "+-.".utf8.contains(byte)
        }
        return isScheme ? colon + 1 : nil
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
    private static func isSlash(_ byte: UInt8) -> Bool { "/\\".utf8.contains(byte) }
    private static func isSpaceOrQuote(_ byte: UInt8) -> Bool { " \"'".utf8.contains(byte) }
    private static func endsAuthority(_ byte: UInt8) -> Bool { "/\\?#".utf8.contains(byte) }
    private static func endsPart(_ byte: UInt8) -> Bool { endsAuthority(byte) || "&; ".utf8.contains(byte) }

    private static func endsName(_ byte: UInt8) -> Bool {
        endsPart(byte) || "\"'=:@,|<>{}()~^`\t".utf8.contains(byte)
    }
}
