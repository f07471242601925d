import Foundation

enum SVGText {
    /// Escapes or replaces characters that XML or a line of text cannot hold (XML 1.0, 2.2 Characters).
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

    /// A short, redacted name that distinguishes a key: the last part of its URL, shortened in the middle.
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
        let scalars = Array(text.unicodeScalars)
        guard columns(scalars) > width else { return text }
        func start(of scalars: some Collection<Unicode.Scalar>, width: Int) -> [Unicode.Scalar] {
            var used = 0
            return scalars.prefix { scalar in
                defer { used += columns([scalar]) }
                return used < width
            }.map(\.self)
        }
        let head = start(of: scalars, width: width * 3 / 5)
        let tail = start(of: scalars.reversed(), width: width - 1 - columns(head)).reversed()
        return String(String.UnicodeScalarView(head)) + "…" + String(String.UnicodeScalarView(tail))
    }

    /// East Asian characters and emoji take two columns.
    private static func columns(_ scalars: [Unicode.Scalar]) -> Int {
        scalars.reduce(0) { $0 + ($1.value < 0x1100 ? 1 : 2) }
    }

    /// At most two digits after the point.
    static func number(_ value: Double) -> String {
        let rounded = (value * 100).rounded() / 100
        return rounded == rounded.rounded() ? String(Int(rounded)) : "\(rounded)"
    }

    static func count(_ value: Int) -> String { value.formatted(.number.locale(Locale(identifier: "en_US"))) }
}

struct SVGPath {
    private var text = ""

    func element(_ attributes: String = "", title: String? = nil) -> String {
        guard !text.isEmpty else { return "" }
        let start = "<path d=\"\(text)\" \(attributes)"
        return title.map { "\(start)><title>\(SVGText.escaped($0))</title></path>" } ?? "\(start)/>"
    }

    private func number(_ value: Double) -> String { SVGText.number(value) }

    mutating func rectangle(_ x: Double, _ y: Double, _ width: Double, _ height: Double) {
        text += "M\(number(x)) \(number(y))h\(number(width))v\(number(height))h\(number(-width))z"
    }

    mutating func line(_ x: Double, _ y: Double, toX: Double, y toY: Double) {
        text += "M\(number(x)) \(number(y))L\(number(toX)) \(number(toY))"
    }

    /// The corners are in units of the radius, around a centre.
    mutating func polygon(_ corners: [(Double, Double)], _ x: Double, _ y: Double, _ radius: Double) {
        let points = corners.map { "\(number(x + $0.0 * radius)) \(number(y + $0.1 * radius))" }
        text += "M\(points.joined(separator: "L"))z"
    }
}
