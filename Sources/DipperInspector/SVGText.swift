import Foundation

enum SVGText {
    /// Escapes XML's reserved characters, and replaces characters that XML or a line of text cannot hold (XML 1.0, 2.2
    /// Characters).
    static func escaped(_ text: some StringProtocol) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\t", "\n", "\r": result += " "
            default: result.unicodeScalars.append(isPrintable(scalar) ? scalar : "\u{FFFD}")
            }
        }
        return result
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F...0x9F, 0xFFFE, 0xFFFF: false
        // Marks that change the direction of the text after them.
        case 0x200E, 0x200F, 0x202A...0x202E, 0x2066...0x2069: false
        default: true
        }
    }

    /// A short name that distinguishes a key from its neighbours: the last part of its URL, shortened in the middle.
    /// The key is redacted.
    static func label(of key: String, width: Int) -> String {
        // A caller's own key may be of any length.
        let line = key.unicodeScalars.prefix(2_000)
        let end = line.firstIndex { $0 == "?" } ?? line.endIndex
        var path = line[..<end]
        while path.last == "/" { path.removeLast() }
        var text = String(String.UnicodeScalarView(line))
        if let slash = path.lastIndex(of: "/") {
            text = String(String.UnicodeScalarView(path[path.index(after: slash)...] + line[end...]))
        }
        return shortened(text.removingPercentEncoding ?? text, width: width)
    }

    /// The middle is left out if the text is wider than about `width` columns.
    static func shortened(_ text: String, width: Int) -> String {
        let scalars = text.unicodeScalars
        guard columns(scalars) > width else { return text }
        var head = String.UnicodeScalarView()
        var tail: [Unicode.Scalar] = []
        var used = 0
        for scalar in scalars where used < width * 3 / 5 {
            head.append(scalar)
            used += columns(CollectionOfOne(scalar))
        }
        for scalar in scalars.reversed() where used < width - 1 {
            tail.append(scalar)
            used += columns(CollectionOfOne(scalar))
        }
        return String(head) + "…" + String(String.UnicodeScalarView(tail.reversed()))
    }

    /// East Asian characters and emoji take two columns.
    private static func columns(_ scalars: some Collection<Unicode.Scalar>) -> Int {
        scalars.reduce(0) { $0 + ($1.value < 0x1100 ? 1 : 2) }
    }

    static func number(_ value: Double) -> String {
        let hundredths = Int((value * 100).rounded())
        let (whole, rest) = abs(hundredths).quotientAndRemainder(dividingBy: 100)
        let sign = hundredths < 0 ? "-" : ""
        if rest == 0 { return "\(sign)\(whole)" }
        if rest % 10 == 0 { return "\(sign)\(whole).\(rest / 10)" }
        return "\(sign)\(whole).\(rest < 10 ? "0" : "")\(rest)"
    }

    static func count(_ value: Int) -> String {
        var digits = String(value)
        var index = digits.count - 3
        while index > 0 {
            digits.insert(",", at: digits.index(digits.startIndex, offsetBy: index))
            index -= 3
        }
        return digits
    }
}

/// The `d` attribute of a path element that consists of many small shapes.
struct SVGPath {
    private(set) var text = ""

    var isEmpty: Bool { text.isEmpty }

    private func number(_ value: Double) -> String { SVGText.number(value) }

    mutating func rectangle(_ x: Double, _ y: Double, _ width: Double, _ height: Double) {
        text += "M\(number(x)) \(number(y))h\(number(width))v\(number(height))h\(number(-width))z"
    }

    mutating func line(_ x: Double, _ y: Double, toX: Double, y toY: Double) {
        text += "M\(number(x)) \(number(y))L\(number(toX)) \(number(toY))"
    }

    mutating func polygon(_ points: [(Double, Double)]) {
        for (index, point) in points.enumerated() {
            text += "\(index == 0 ? "M" : "L")\(number(point.0)) \(number(point.1))"
        }
        text += "z"
    }

    mutating func circle(_ x: Double, _ y: Double, _ radius: Double) {
        let (r, d) = (number(radius), number(2 * radius))
        text += "M\(number(x - radius)) \(number(y))a\(r) \(r) 0 1 0 \(d) 0a\(r) \(r) 0 1 0 -\(d) 0z"
    }

    mutating func cross(_ x: Double, _ y: Double, _ radius: Double) {
        line(x - radius, y - radius, toX: x + radius, y: y + radius)
        line(x - radius, y + radius, toX: x + radius, y: y - radius)
    }
}
