import Foundation

/// The table and the picture at the top of RESULTS.md: the time that ours takes beside that of the best known way.
struct Summary {
    private struct Line {
        let what: String
        let beside: String
        let comparison: String
        let check: String

        init(_ what: String, _ beside: String, _ comparison: String, _ check: String) {
            (self.what, self.beside, self.comparison, self.check) = (what, beside, comparison, check)
        }
    }

    private static let lines = [
        Line("hit in memory", "dictionary under a lock", "memory", "by url ÷ Dictionary<String>, 1 thread"),
        Line("picture in memory", "bytes in memory", "imagehit", "getImage ÷ getData, 1 thread"),
        Line("misses in memory, Zipf", "LRU", "evict", "misses ÷ LRU, Zipf 1.0 of 10,000, room for 500"),
        Line("hit on disk, 4 KB", "plain file", "disk", "hit ÷ plain files, none kept, 4 KB"),
        Line("write to disk, 4 KB", "plain file", "disk", "write ÷ plain files, 4 KB"),
        Line("2,000 small files", "async-http-client", "fetch", "memory only ÷ async-http-client, 8 at once"),
        Line("2,000 small files", "libcurl in C", "fetch", "memory only ÷ C loop, 8 at once"),
        Line("answer 304", "libcurl in C, no cache", "revalidate", "a 304 ÷ libcurl"),
        Line("urgent files, HTTP/1.1", "Chromium", "link", "HTTP/1.1, alone ÷ Chromium alone"),
        Line("urgent files, HTTP/2", "Chromium", "link", "HTTP/2, alone ÷ Chromium alone"),
        Line("urgent files during prefetches", "the same alone", "link", "HTTP/1.1, under 150 × 60 KB ÷ alone"),
        Line("prefetches", "the whole link", "throughput", "share of the link, filling, 150 × 60 KB, HTTP/1.1"),
        Line("thumbnail of a JPEG", "libjpeg-turbo in C", "decode", "400 × 300 ÷ libjpeg-turbo in C"),
        Line("PNG", "libpng in C", "decode", "RGB, whole picture ÷ libpng in C"),
        Line("AVIF", "Pillow", "decode", "AVIF, whole picture ÷ Pillow"),
        Line("thumbnail of pixels", "pillow-simd", "resize", "1000 × 750 ÷ pillow-simd"),
        Line("blur", "libvips", "processors", "blur, σ = 10 ÷ libvips"),
        Line("photographs over HTTP", "C, from files", "photos", "over HTTP ÷ loop in C"),
        Line("last byte of a photograph to its thumbnail", "a decode", "arriving", Self.arriving),
        Line("playing a GIF", "gdk-pixbuf", "animation", "processor ÷ gdk-pixbuf"),
        Line("list at rest after a fling, HTTP/1.1", "its rows alone", "scrolling", Self.stopped),
    ]
    private static let arriving = "last byte to picture ÷ decode alone, to 400 × 300"
    private static let stopped = "stopped, HTTP/1.1: ListLoader ÷ visible ones alone"
    static let picture = "results.svg"

    /// The newest figures, in the order of the lines.
    private let found: [(line: Line, figure: History.Figure)]
    /// The lines for which there is no figure.
    let missing: [String]

    init(_ history: History) {
        var (found, missing): ([(Line, History.Figure)], [String]) = ([], [])
        for line in Self.lines {
            if let figure = history.figures(of: line.comparison)[line.check] {
                found.append((line, figure))
            } else {
                missing.append("\(line.comparison): \(line.check)")
            }
        }
        (self.found, self.missing) = (found, missing)
    }

    /// The time of ours, with that of the other as 1. A rate is turned round.
    private static func time(_ value: Double, _ bound: Check.Bound?) -> Double {
        bound == .atLeast ? 1 / value : value
    }

    var markdown: String {
        let rows = found.map { line, figure in
            let time = Self.time(figure.value, figure.bound)
            let wanted = figure.limit.map { "≤ " + Self.time($0, figure.bound).short } ?? "–"
            return [line.what, line.beside, time.short, wanted]
        }
        return Table(
            "In a minute",
            says:
                "The time that ours takes, if the other takes 1; less is faster. For memory, misses. Shares of the link "
                + "and rates are turned round. The sections below say how each is measured, and have the others.\n\n"
                + "![Each line of the table as a bar](\(Self.picture))",
            header: ["what", "beside", "ours", "wanted"], rows: rows
        ).markdown
    }

    // MARK: The picture

    private static let (width, labels, row, top) = (860.0, 430.0, 22.0, 44.0)
    /// The axis goes from an eighth to eight times.
    private static let octaves = 3.0

    private static func place(_ time: Double) -> Double {
        let exponent = min(max(log2(time), -octaves), octaves)
        return labels + (exponent + octaves) / (2 * octaves) * (width - labels - 60)
    }

    var svg: String {
        let height = Self.top + Self.row * Double(found.count) + 30
        var text = """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Self.width) \(height)" font-family="sans-serif" \
            font-size="13" role="img" aria-label="The time of ours beside that of others">
            <rect width="100%" height="100%" fill="#ffffff"/>
            <text x="10" y="20" font-weight="bold">Time of ours, if the other takes 1</text>

            """
        for exponent in -3...3 {
            let time = pow(2, Double(exponent))
            let x = Self.place(time)
            text += """
                <line x1="\(x)" x2="\(x)" y1="\(Self.top - 8)" y2="\(height - 24)" \
                stroke="\(exponent == 0 ? "#333333" : "#dddddd")"/>
                <text x="\(x)" y="\(height - 8)" text-anchor="middle" fill="#555555">\(time.short) ×</text>

                """
        }
        for (index, (line, figure)) in found.enumerated() {
            let y = Self.top + Self.row * Double(index)
            let time = Self.time(figure.value, figure.bound)
            let (one, end) = (Self.place(1), Self.place(time))
            let names = "\(line.what) ÷ \(line.beside)".replacingOccurrences(of: "&", with: "&amp;")
                .replacingOccurrences(of: "<", with: "&lt;")
            text += """
                <text x="\(Self.labels - 12)" y="\(y + 12)" text-anchor="end">\(names)</text>
                <rect x="\(min(one, end))" y="\(y)" width="\(max(1, abs(end - one)))" height="15" \
                fill="\(time <= 1 ? "#2e7d32" : "#c77700")"/>
                <text x="\(max(one, end) + 6)" y="\(y + 12)" fill="#333333">\(time.short)</text>

                """
            if let limit = figure.limit {
                let x = Self.place(Self.time(limit, figure.bound))
                text +=
                    "<line x1=\"\(x)\" x2=\"\(x)\" y1=\"\(y - 2)\" y2=\"\(y + 17)\" stroke=\"#1565c0\" "
                    + "stroke-width=\"2\"/>\n"
            }
        }
        return text
            + "<text x=\"\(Self.width - 10)\" y=\"20\" text-anchor=\"end\" fill=\"#1565c0\">| wanted</text>\n</svg>\n"
    }
}
